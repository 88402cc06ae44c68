// The stream that the page reads: what changes in the cache and among the requests, as server-sent events.
//
// A thread looks at the engine a few times a second, between two steps, and only while somebody watches. It writes
// for each watcher what that one has not seen, once its last piece is on its way: a slow watcher gets fewer and
// larger pieces, none larger than a snapshot, and never a queue.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine_thread.h"
#include "server/http/http_types.h"
#include "server/live/live_board.h"

namespace kvasir {

class LiveFeed {
 public:
  // Asked on the feed's thread. All outlive the feed.
  struct Sources {
    EngineThread& engine;
    const Records& records;
    std::function<OrderedJson(const Caller&)> hello;    // of the server; the first piece has it
    std::function<OrderedJson(const Caller&)> numbers;  // counts so far
  };
  static constexpr size_t kMostWatchers = 32;
  static constexpr size_t kMostOfOne = 8;  // watchers of a tenant

  explicit LiveFeed(Sources sources);
  ~LiveFeed();
  LiveFeed(const LiveFeed&) = delete;
  LiveFeed& operator=(const LiveFeed&) = delete;

  // A stream for the caller, until its Work is destroyed. Throws ApiError (429) where there are too many.
  std::unique_ptr<Work> watch(std::shared_ptr<const Caller> caller);

  // Ends every stream, and those to come: the server drains. restart: every stream, so that those who may still watch
  // come again.
  void end();
  void restart();

  size_t watchers() const;

 private:
  class Stream;  // what a Work and the feed share
  class StreamWork;
  static bool has_gone(const std::weak_ptr<Stream>& stream);  // its watcher

  void loop();
  void tick();
  std::string piece_for(Stream& stream);

  Sources sources_;
  LiveBoard board_;        // of the feed's thread, as
  bool watching_ = false;  // this
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::weak_ptr<Stream>> streams_;  // under mutex_
  bool came_ = false;                           // under mutex_: somebody did
  bool stopping_ = false;                       // under mutex_
  bool ended_ = false;                          // under mutex_
  std::thread thread_;                          // started when all else is there
};

}  // namespace kvasir
