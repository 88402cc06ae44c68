#include "server/live/live_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "server/api/api_error.h"
#include "server/http/sse.h"

namespace kvasir {
namespace {

using namespace std::chrono_literals;
constexpr auto kBusyPause = 100ms;    // between two looks while something happens, …
constexpr auto kIdlePause = 300ms;    // … and while nothing does
constexpr auto kNumbersEvery = 1s;    // of which a page draws charts
constexpr size_t kMostFinished = 64;  // told at once

}  // namespace

// The viewer is the feed's thread's; all else is under the mutex. `wake` is called under it, so that it is never
// called again once the Work is gone.
class LiveFeed::Stream {
 public:
  explicit Stream(std::shared_ptr<const Caller> caller) : viewer(std::move(caller)) {}

  LiveViewer viewer;

  bool has_room() {
    const std::lock_guard lock(mutex_);
    return !ended_ && piece_.empty();
  }
  void put(std::string piece) {
    const std::lock_guard lock(mutex_);
    piece_ = std::move(piece);
    if (wake_) wake_();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    if (wake_) wake_();
  }
  // Its watcher went: whoever comes next may have its place, though the feed's thread may still hold it.
  void leave() {
    const std::lock_guard lock(mutex_);
    wake_ = {};
    ended_ = has_left_ = true;
  }
  bool has_left() {
    const std::lock_guard lock(mutex_);
    return has_left_;
  }
  void on_event(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    if (wake_ && (ended_ || !piece_.empty())) wake_();
  }
  Work::Progress take() {
    const std::lock_guard lock(mutex_);
    return {std::exchange(piece_, {}), ended_, 200};
  }

 private:
  std::mutex mutex_;
  std::string piece_;
  std::function<void()> wake_;
  bool ended_ = false;
  bool has_left_ = false;
};

bool LiveFeed::has_gone(const std::weak_ptr<Stream>& stream) {
  const auto held = stream.lock();
  return !held || held->has_left();
}

class LiveFeed::StreamWork : public Work {
 public:
  explicit StreamWork(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~StreamWork() override { stream_->leave(); }

  void on_event(std::function<void()> wake) override { stream_->on_event(std::move(wake)); }
  Progress take() override { return stream_->take(); }
  Progress give_up(GiveUp) override { return {{}, true, 200}; }  // a page comes again

 private:
  std::shared_ptr<Stream> stream_;  // the feed's thread holds it too while it writes
};

LiveFeed::LiveFeed(Sources sources) : sources_(std::move(sources)), thread_([this] { loop(); }) {}

LiveFeed::~LiveFeed() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::unique_ptr<Work> LiveFeed::watch(std::shared_ptr<const Caller> caller) {
  const auto refused = [](const char* why) {
    throw ApiError({.status = 429, .type = "rate_limit_error", .code = "too_many_watchers", .retry_after_s = 5}, why);
  };
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, has_gone);
  if (streams_.size() >= kMostWatchers) refused("as many watch as the server has room for; try again");
  const auto own = std::ranges::count_if(streams_, [&](const auto& stream) {
    const auto other = stream.lock();
    return other && other->viewer.caller->id == caller->id;
  });
  if (std::cmp_greater_equal(own, kMostOfOne)) refused("you watch as often as one tenant may; close another page");
  auto stream = std::make_shared<Stream>(std::move(caller));
  if (ended_) stream->end();
  streams_.emplace_back(stream);
  came_ = true;
  wake_.notify_one();
  return std::make_unique<StreamWork>(std::move(stream));
}

void LiveFeed::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  restart();
}

void LiveFeed::restart() {
  const std::lock_guard lock(mutex_);
  for (const auto& weak : streams_) {
    if (const auto stream = weak.lock()) stream->end();
  }
}

size_t LiveFeed::watchers() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::ranges::count_if(streams_, std::not_fn(has_gone)));
}

// After a look that went wrong (there may be no memory for it just now) nobody knows who was told what.
void LiveFeed::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::erase_if(streams_, has_gone);
    if (streams_.empty() && !watching_) {
      wake_.wait(lock, [this] { return stopping_ || came_; });
      came_ = false;
      continue;
    }
    came_ = false;
    lock.unlock();
    try {
      tick();
    } catch (const std::exception&) {
      restart();
    }
    lock.lock();
    wake_.wait_for(lock, board_.busy() ? kBusyPause : kIdlePause, [this] { return stopping_ || came_; });
  }
}

void LiveFeed::tick() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : streams_) {
      if (auto stream = weak.lock()) streams.push_back(std::move(stream));
    }
  }
  if (streams.empty()) {
    sources_.engine.ask([](Engine& engine) {
      engine.unwatch_cache();
      return 0;
    });
    watching_ = false;
    board_.clear();
    return;
  }
  board_.apply(sources_.engine.ask([first = !watching_](Engine& engine) {
    if (first) engine.watch_cache();
    return look_at(engine);
  }));
  watching_ = true;
  for (const auto& stream : streams) {
    if (!stream->has_room()) continue;
    std::string piece = piece_for(*stream);
    if (!piece.empty()) stream->put(std::move(piece));
  }
}

std::string LiveFeed::piece_for(Stream& stream) {
  LiveViewer& viewer = stream.viewer;
  const auto now = std::chrono::steady_clock::now();
  std::string fields;
  if (!viewer.begun) fields += fmt::format("\"hello\":{},", to_text(sources_.hello(*viewer.caller)));
  fields += board_.blocks_for(viewer);
  fields += board_.events_for(viewer);
  fields += board_.requests_for(viewer);
  const std::string finished = sources_.records.told_since(viewer.finished, *viewer.caller, kMostFinished);
  if (!finished.empty()) fields += fmt::format("\"finished\":[{}],", finished);
  if (!viewer.begun || now - viewer.numbers_at >= kNumbersEvery) {
    viewer.numbers_at = now;
    fields += fmt::format("\"numbers\":{},", to_text(sources_.numbers(*viewer.caller)));
  }
  viewer.begun = true;
  if (fields.empty()) return {};
  return sse_data(fmt::format("{{{}\"now\":{:.3f}}}", fields, board_.now()));
}

}  // namespace kvasir
