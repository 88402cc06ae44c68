// Server-sent events, as text.
#pragma once

#include <string>
#include <string_view>

namespace kvasir {

inline constexpr std::string_view kSseType = "text/event-stream";
inline constexpr std::string_view kSsePing = ": ping\n\n";  // a comment: clients ignore it
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// REQUIRES: `json` is one line, as JSON without indentation is.
std::string sse_data(std::string_view json);
std::string sse_event(std::string_view name, std::string_view json);

}  // namespace kvasir
