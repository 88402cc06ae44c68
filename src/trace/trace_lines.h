// A trace as lines of JSON, as `kvasir serve --trace` writes them. docs/planning.md describes the fields; a change of
// their meaning is another version.
#pragma once

#include <string>

#include "trace/request_trace.h"

namespace kvasir {

inline constexpr int kTraceVersion = 1;

// Each one line, without its end.
std::string trace_line(const TraceConfig& config);
std::string trace_line(const TracedRequest& request);
std::string trace_line(const StepCosts& costs);
std::string lost_line(std::int64_t lines);  // that could not be written

}  // namespace kvasir
