// What becomes of a request when something fails.
#pragma once

#include <exception>
#include <string>

#include "engine/request.h"
#include "engine/sequence.h"

namespace kvasir {

// It ends, unless it has ended already, and its record says why.
void fail(Sequence& sequence, const std::string& why);
// The same with an exception. Where something cannot fit that was asked for, the request is at fault.
void fail_for(Sequence& sequence, const std::exception& error);

// A request that never became a sequence.
void notify_failed(RequestId id, const OnUpdate& listener, const std::string& why);

}  // namespace kvasir
