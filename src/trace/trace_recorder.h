// Listens to an engine, and says what was asked of it as lines of a trace.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/engine.h"
#include "trace/request_trace.h"
#include "trace/text_tags.h"

namespace kvasir {

// How the engine was made, for a trace's first line. Of the texts' secret it says nothing.
TraceConfig trace_config(const Engine& engine);

class TraceRecorder {
 public:
  // Takes a line without its end, on the engine's thread: it must be quick, and not throw.
  using Sink = std::function<void(std::string line)>;

  // The engine outlives this, and does not run yet. From now on it tells this of its steps and its requests.
  // `secret`: of the tags; nobody else has it.
  TraceRecorder(Engine& engine, const Key256& secret, Sink sink);
  ~TraceRecorder();  // the steps since the last line of them. REQUIRES: the engine runs no more
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

 private:
  void add_step(const StepTime& step) noexcept;
  void add_request(const Sequence& sequence) noexcept;
  std::string line_of(const Sequence& sequence) const;
  void write(std::string line);
  void write_steps();

  static constexpr double kStepsEvery = 60;  // seconds

  Engine& engine_;
  TextTags tags_;
  Sink sink_;
  double began_;  // on the engine's clock
  StepCosts steps_;
  double steps_written_;
  std::int64_t missed_ = 0;  // lines that there was no memory for
};

}  // namespace kvasir
