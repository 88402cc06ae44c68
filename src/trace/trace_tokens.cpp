// A trace has no texts. Its replay asks for tokens that agree as far as the trace says that texts did.
#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/mix.h"
#include "trace/read_trace.h"

namespace kvasir {

std::vector<TokenId> tokens_of(const TracedRequest& request, std::uint64_t index, std::int64_t most) {
  std::vector<TokenId> out;
  const std::int64_t all = std::min(request.prompt_tokens + request.answer_tokens, most);
  if (!request.tags.empty()) {
    const std::string_view tags = std::string_view(request.tags).substr(0, static_cast<size_t>(2 * all));
    if (!read_tags(tags, out)) fail_input("a request's tags are none", "the trace", "record it again");
    return out;
  }
  const auto add = [&out, all](std::int64_t count, std::uint64_t text, std::uint64_t salt) {
    for (std::int64_t i = 0; i < count && std::ssize(out) < all; ++i) {
      out.push_back(static_cast<TokenId>(mixed(text, static_cast<std::uint64_t>(i), salt) % kTraceVocab));
    }
  };
  constexpr std::uint64_t kOfHash = 1;
  constexpr std::uint64_t kOfRequest = 2;
  constexpr std::uint64_t kOfAnswer = 3;
  out.reserve(static_cast<size_t>(all));
  for (const std::int64_t hash : request.hashes) {
    const std::int64_t left = request.prompt_tokens - std::ssize(out);
    add(std::min(left, request.hash_tokens), static_cast<std::uint64_t>(hash), kOfHash);
  }
  add(request.prompt_tokens - std::ssize(out), index, kOfRequest);
  add(request.answer_tokens, index, kOfAnswer);
  return out;
}

}  // namespace kvasir
