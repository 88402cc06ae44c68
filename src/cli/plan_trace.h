// kvasir plan --trace: what a server would have done, by asking a trace again of its scheduler and its cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/plan_command.h"
#include "trace/replay.h"

namespace kvasir {

// As typed. Empty: as the trace has it.
struct TraceOptions {
  std::vector<std::filesystem::path> files;
  std::string costs;  // a file that says how long steps take
  std::string model;
  std::string kv;
  std::string kv_memory;
  std::string memory;  // for weights, reserve and cache
  std::string gpu;
  std::string reserve;
  std::string device;
  std::string weights_dtype;
  std::string swap_memory;
  std::string eviction;
  std::int64_t context = 0;
  int block_tokens = 0;
  int max_batch_tokens = 0;
  double rate = 1;
  std::string sweep;  // "memory=8G..64G"
};

// Of a sweep: one value of what is swept, and what it leads to.
struct SweepPoint {
  std::string value;
  double number = 0;                 // of a size; else its place
  std::optional<Replayed> replayed;  // none: it cannot be, and …
  std::string why;                   // … this is why
};

struct TraceReport {
  NamedShape model;
  RequestTrace trace;
  ReplayPlan plan;
  Replayed asked;
  double replay_seconds = 0;  // that this took here
  // What the trace says that happened, and what a replay of just that foretells: the error of the method. None, where
  // the trace does not say it.
  std::optional<RequestOutcomes> measured;
  std::optional<Replayed> as_recorded;
  bool changed = false;  // something was asked for that was otherwise when the trace was recorded
  std::string swept;     // "memory"; empty: nothing
  std::vector<SweepPoint> sweep;
  std::vector<std::string> notes;
};

// Throws Error on what cannot be read, is not known or makes no sense.
TraceReport make_trace_report(const TraceOptions& options);

std::string trace_as_text(const TraceReport& report);
std::string trace_as_markdown(const TraceReport& report);
std::string trace_as_json(const TraceReport& report);
void write_sweep_svg(const TraceReport& report, const std::string& file);  // REQUIRES: there is a sweep

}  // namespace kvasir
