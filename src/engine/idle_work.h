// What an engine does while nobody wants anything of it.
#pragma once

namespace kvasir {

class Engine;

// All calls come on the engine's thread, between two steps.
class IdleWork {
 public:
  IdleWork() = default;
  IdleWork(const IdleWork&) = delete;
  IdleWork& operator=(const IdleWork&) = delete;
  virtual ~IdleWork() = default;

  virtual bool waiting() const = 0;           // there is something to begin
  virtual void begin(Engine& engine) = 0;     // the engine is idle: give it something to do
  virtual void give_way(Engine& engine) = 0;  // somebody asks for an answer: take back what was begun
};

}  // namespace kvasir
