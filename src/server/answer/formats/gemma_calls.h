// Gemma 4's calls: call:NAME{key:<|"|>text<|"|>,n:3,list:[true,null]}, keys bare and strings between quotes of their
// own.
#pragma once

#include "server/answer/formats/call_parser.h"

namespace kvasir {

std::unique_ptr<CallParser> gemma_calls();

}  // namespace kvasir
