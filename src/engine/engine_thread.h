// An engine on a thread of its own, with one queue in; what goes out goes through each request's listener.
//
// The engine itself is single-threaded and needs no lock: other threads leave commands here, which the loop carries
// out between two steps. It sleeps when there is nothing to do.
//
// What goes wrong in a step fails the requests that ran, not the thread: they are notified why, and the loop goes on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/idle_work.h"

namespace kvasir {

class EngineThread {
 public:
  // The engine outlives this, and is this thread's alone until the destructor returns: no second EngineThread, and
  // no call of the engine itself.
  // Idle work, if any, outlives this too.
  explicit EngineThread(Engine& engine, IdleWork* idle_work = nullptr);
  ~EngineThread();  // cancels what still runs; every listener has then heard its end
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // From any thread. Throws Error at once for what can never run, as Engine::submit does. The listener is called on
  // the engine's thread: it must be quick, and hand on what it is given.
  RequestId submit(Request request, OnUpdate on_update);
  std::vector<RequestId> submit(Request request, OnUpdate on_update, std::vector<Branch> branches);
  void cancel(RequestId id);                          // takes effect before the next step, as
  void charge(std::uint32_t tenant, double seconds);  // this does: see Engine::charge

  // Runs `look` on the engine's thread between two steps and returns its answer: for statistics.
  template <class Look>
  auto ask(Look look) {
    using Result = decltype(look(std::declval<Engine&>()));
    auto answer = std::make_shared<std::promise<Result>>();
    std::future<Result> result = answer->get_future();
    post([answer, look = std::move(look)](Engine& engine) {
      try {
        answer->set_value(look(engine));
      } catch (...) {
        answer->set_exception(std::current_exception());
      }
    });
    return result.get();
  }

  // Runs it on the engine's thread between two steps, where nobody waits for it: it must not throw.
  using Command = std::function<void(Engine&)>;
  void post_work(Command command) { post(std::move(command), Brings::kWork); }

  // Whether the last step that had something to do failed; from any thread.
  bool failing() const { return failing_; }

  // Called for every step that failed, on the engine's thread.
  void on_failure(std::function<void(const std::string& why)> listener);

 private:
  enum class Brings : std::uint8_t { kWork, kQuestion };

  void post(Command command, Brings brings = Brings::kQuestion);
  void loop();
  void run_commands(std::vector<Command>& commands);
  void fail(const std::string& why) noexcept;

  Engine& engine_;
  std::mutex mutex_;
  std::condition_variable wake_;
  IdleWork* idle_work_;
  std::vector<Command> commands_;  // under mutex_
  bool work_came_ = false;         // under mutex_: idle work must give way
  bool stopping_ = false;          // under mutex_
  std::atomic<bool> failing_ = false;
  std::function<void(const std::string&)> on_failure_;  // of the engine's thread
  std::thread thread_;                                  // started when all else is there
};

}  // namespace kvasir
