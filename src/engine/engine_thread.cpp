#include "engine/engine_thread.h"

#include <chrono>
#include <utility>

namespace kvasir {

EngineThread::EngineThread(Engine& engine, IdleWork* idle_work) : engine_(engine), idle_work_(idle_work) {
  engine_.claim();
  thread_ = std::thread([this] { loop(); });
}

EngineThread::~EngineThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  engine_.release();
}

RequestId EngineThread::submit(Request request, OnUpdate on_update) {
  return submit(std::move(request), std::move(on_update), {}).front();
}

std::vector<RequestId> EngineThread::submit(Request request, OnUpdate on_update, std::vector<Branch> branches) {
  // const, and of what never changes or is locked: safe while the loop runs
  CheckedRequest checked = engine_.check(std::move(request));
  std::vector<RequestId> ids(1 + branches.size());
  for (RequestId& id : ids) id = engine_.new_id();
  post(
      [ids, checked = std::move(checked), on_update = std::move(on_update),
       branches = std::move(branches)](Engine& engine) mutable {
        engine.start(ids, std::move(checked), std::move(on_update), std::move(branches));
      },
      Brings::kWork);
  return ids;
}

void EngineThread::cancel(RequestId id) {
  post([id](Engine& engine) { engine.cancel(id); });
}

void EngineThread::charge(std::uint32_t tenant, double seconds) {
  post([tenant, seconds](Engine& engine) { engine.charge(tenant, seconds); });
}

void EngineThread::post(Command command, Brings brings) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
    work_came_ |= brings == Brings::kWork;
  }
  wake_.notify_one();
}

void EngineThread::loop() {
  std::vector<Command> commands;
  const auto idle_work_waits = [this] { return idle_work_ != nullptr && idle_work_->waiting(); };
  while (true) {
    bool work_came = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !commands_.empty() || !engine_.idle() || idle_work_waits(); });
      std::swap(commands, commands_);
      work_came = std::exchange(work_came_, false);
      if (stopping_ && commands.empty()) break;
    }
    try {
      if (work_came && idle_work_ != nullptr) idle_work_->give_way(engine_);
      run_commands(commands);
      if (engine_.idle() && idle_work_waits()) idle_work_->begin(engine_);
      const bool works = !engine_.idle();
      engine_.step();
      if (works) failing_ = false;
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }
  engine_.cancel_all();
  while (!engine_.idle()) {
    try {
      engine_.run();
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }
}

void EngineThread::run_commands(std::vector<Command>& commands) {
  std::vector<Command> now = std::exchange(commands, {});
  for (Command& command : now) command(engine_);
}

void EngineThread::fail(const std::string& why) noexcept {
  failing_ = true;
  const std::string message = "the step failed: " + why + "; ask again";
  try {
    engine_.fail_step(message);
    if (on_failure_) on_failure_(why);
  } catch (const std::exception&) {
    // No memory even for that: the next step fails again, and this is tried again.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void EngineThread::on_failure(std::function<void(const std::string& why)> listener) {
  ask([this, &listener](Engine&) {
    on_failure_ = std::move(listener);
    return true;
  });
}

}  // namespace kvasir
