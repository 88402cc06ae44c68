// LFM2's calls: a list of calls as Python writes them, [NAME(key="text", n=3, on=True), …], or the same as JSON.
#pragma once

#include "server/answer/formats/call_parser.h"

namespace kvasir {

std::unique_ptr<CallParser> python_calls();

}  // namespace kvasir
