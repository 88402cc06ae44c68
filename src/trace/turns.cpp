#include "trace/turns.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace kvasir {
namespace {

// The last tokens of an answer may be others when they are read again: an end that a template writes otherwise.
constexpr std::int64_t kLastTokens = 2;
constexpr std::int64_t kLeastAnswer = 4;  // with fewer left nobody knows whose they are

std::uint64_t extended(std::uint64_t hash, std::string_view tags, std::int64_t token) {
  const auto at = static_cast<std::size_t>(2 * token);
  const std::uint64_t tag = static_cast<unsigned char>(tags[at]) * 256U + static_cast<unsigned char>(tags[at + 1]);
  hash = (hash ^ tag) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 32);
}

std::uint64_t hash_of(std::string_view tags, std::int64_t tokens) {
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < tokens; ++i) hash = extended(hash, tags, i);
  return hash;
}

}  // namespace

std::vector<std::optional<EarlierTurn>> find_turns(const RequestTrace& trace) {
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> ended;  // by the hash of prompt and answer
  std::vector<bool> lengths;                                          // that these have
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const TracedRequest& request = trace.requests[i];
    const std::int64_t answer = request.answer_tokens - kLastTokens;
    if (request.tags.empty() || !request.measured || answer < kLeastAnswer) continue;
    const std::int64_t tokens = request.prompt_tokens + answer;
    ended[hash_of(request.tags, tokens)].push_back(i);
    if (std::ssize(lengths) <= tokens) lengths.resize(static_cast<std::size_t>(tokens) + 1);
    lengths[static_cast<std::size_t>(tokens)] = true;
  }
  std::vector<std::optional<EarlierTurn>> out(trace.requests.size());
  if (ended.empty()) return out;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const TracedRequest& request = trace.requests[i];
    if (request.tags.empty() || request.twin_of != 0) continue;
    std::uint64_t hash = 0;
    const std::int64_t longest = std::min(request.prompt_tokens, std::ssize(lengths) - 1);
    for (std::int64_t token = 0; token < longest; ++token) {
      hash = extended(hash, request.tags, token);
      if (!lengths[static_cast<std::size_t>(token) + 1]) continue;
      const auto found = ended.find(hash);
      if (found == ended.end()) continue;
      for (const std::size_t earlier : found->second) {
        const TracedRequest& before = trace.requests[earlier];
        const double think = request.at - (before.at + before.measured->seconds);
        if (earlier == i || think < 0) continue;
        if (!out[i] || think < out[i]->think_seconds) out[i] = EarlierTurn{earlier, think};
      }
    }
  }
  return out;
}

}  // namespace kvasir
