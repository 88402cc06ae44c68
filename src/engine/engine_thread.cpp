#include "engine/engine_thread.h"

#include <utility>

namespace kvasir {

EngineThread::EngineThread(Engine& engine) : engine_(engine) {
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
  engine_.check(request);  // const, and of what never changes or is locked: safe while the loop runs
  std::vector<RequestId> ids(1 + branches.size());
  for (RequestId& id : ids) id = engine_.new_id();
  post([ids, request = std::move(request), on_update = std::move(on_update),
        branches = std::move(branches)](Engine& engine) mutable {
    engine.start(ids, std::move(request), std::move(on_update), std::move(branches));
  });
  return ids;
}

void EngineThread::cancel(RequestId id) {
  post([id](Engine& engine) { engine.cancel(id); });
}

void EngineThread::post(Command command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  wake_.notify_one();
}

void EngineThread::loop() {
  std::vector<Command> commands;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !commands_.empty() || !engine_.idle(); });
      std::swap(commands, commands_);
      if (stopping_ && commands.empty()) break;
    }
    for (Command& command : commands) command(engine_);
    commands.clear();
    engine_.step();
  }
  engine_.cancel_all();
  engine_.run();
}

}  // namespace kvasir
