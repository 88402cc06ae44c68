// Traces that kvasir plan is to ask again: ours, Mooncake's and Azure's.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "base/error.h"
#include "trace/read_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  kvasir::RequestTrace trace;
  try {
    kvasir::read_trace(in, "fuzz", trace);
    for (const kvasir::TracedRequest& request : trace.requests) kvasir::tokens_of(request, 1, 4096);
    if (!trace.costs.empty()) kvasir::StepCostModel(trace.costs).seconds({8, 100, 1});
  } catch (const kvasir::Error&) {
    // As it should be.
  }
  return 0;
}
