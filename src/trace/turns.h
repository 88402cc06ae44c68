// Which requests of a trace go on where another one's answer ended: nobody writes the next turn of a conversation
// before the last one was answered, however long that takes under another plan.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "trace/request_trace.h"

namespace kvasir {

struct EarlierTurn {
  std::size_t index = 0;     // of the request in the trace
  double think_seconds = 0;  // from the end of its answer
};

// By request: the latest of those whose prompt and answer it begins with, and which were over when it came. None, of
// first turns, and where the trace does not know it.
std::vector<std::optional<EarlierTurn>> find_turns(const RequestTrace& trace);

}  // namespace kvasir
