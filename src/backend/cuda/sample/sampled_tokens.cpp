#include "backend/cuda/sample/sampled_tokens.h"

#include <algorithm>
#include <atomic>

#include "backend/cuda/runtime/cuda_check.h"
#include "backend/cuda/runtime/pinned_memory.h"
#include "base/check.h"
#include "base/pause_cpu.h"

namespace kvasir::cuda {

SampledTokens::Ticket SampledTokens::add(size_t rows) {
  last_sampled_.grow_to(rows * sizeof(TokenId));
  HostTokens& entry = free_host_tokens(rows);
  std::fill_n(entry.tokens.as<TokenId>(), rows, kUnknown);
  entry.ticket = ++last_;
  entry.noted = 0;
  return {entry.ticket, entry.tokens.as<TokenId>()};
}

SampledTokens::HostTokens& SampledTokens::find(SampleTicket ticket) {
  const auto found = std::ranges::find(host_tokens_, ticket, [](const auto& entry) { return entry->ticket; });
  CHECK(ticket != kNoSample && found != host_tokens_.end());
  return **found;
}

std::uint64_t SampledTokens::take(SampleTicket ticket, std::span<TokenId> tokens) {
  HostTokens& entry = find(ticket);
  CHECK(tokens.size() <= entry.rows);
  TokenId* from = entry.tokens.as<TokenId>();
  for (TokenId& token : tokens) token = wait_for(*from++);
  entry.ticket = kNoSample;
  return tokens.empty() ? 0 : entry.noted;
}

// A token is one atomic store and all that is waited for, so no event is needed.
TokenId SampledTokens::wait_for(TokenId& at) const {
  constexpr std::uint32_t kLooksAtMemory = 1 << 15;  // a millisecond or more
  const std::atomic_ref<TokenId> token(at);
  for (std::uint32_t looks = 1;; ++looks) {
    const TokenId seen = token.load(std::memory_order_relaxed);
    if (seen != kUnknown) return seen;
    if (looks % kLooksAtMemory == 0) look_at_device(at);
    pause_cpu();
  }
}

// A failed device writes no token: the wait must end with its error.
void SampledTokens::look_at_device(TokenId& at) const {
  const cudaError_t state = cudaStreamQuery(stream_);
  if (state == cudaErrorNotReady) return;
  check(state, "waiting for tokens");
  CHECK(std::atomic_ref<TokenId>(at).load(std::memory_order_relaxed) != kUnknown);  // else it was never enqueued
}

SampledTokens::HostTokens& SampledTokens::free_host_tokens(size_t rows) {
  const auto found = std::ranges::find_if(
      host_tokens_, [rows](const auto& entry) { return entry->ticket == kNoSample && entry->rows >= rows; });
  if (found != host_tokens_.end()) return **found;
  auto made = std::make_unique<HostTokens>();
  made->rows = std::max(rows, kFirstRows);
  made->tokens = pinned_memory(made->rows * sizeof(TokenId));
  return *host_tokens_.emplace_back(std::move(made));
}

}  // namespace kvasir::cuda
