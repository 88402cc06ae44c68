// The places up to which a request wants its prompt kept in the cache, as each API writes them. Throws ApiError.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "server/api/json_fields.h"

namespace kvasir {

struct CacheBreakpoint {
  std::chrono::seconds keep{300};
  Json::json_pointer text{};     // in the body: the mark is at this text's end
  std::optional<size_t> tool{};  // instead: after this one of the body's tools
};

// "cache_control" on tools, system blocks, content blocks and the request: at most 4.
std::vector<CacheBreakpoint> anthropic_cache_breakpoints(const Json& body);

// "prompt_cache_breakpoint" on content parts, "prompt_cache_options" and "prompt_cache_retention": the last 4 count.
// `list` names the array of messages or items.
std::vector<CacheBreakpoint> openai_cache_breakpoints(const Json& body, const std::string& list);

}  // namespace kvasir
