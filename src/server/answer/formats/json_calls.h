// Calls that are JSON: {"name": …, "arguments": {…}}, one or several, with commas, brackets or nothing between them.
#pragma once

#include "server/answer/formats/call_parser.h"

namespace kvasir {

// `close` stands behind the calls; empty: nothing does.
std::unique_ptr<CallParser> json_calls(std::string_view close);

}  // namespace kvasir
