#include "backend/cuda/drawn_tokens.h"

#include <algorithm>
#include <atomic>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/pinned_memory.h"
#include "base/check.h"
#include "base/pause_cpu.h"

namespace kvasir::cuda {

DrawnTokens::Draw DrawnTokens::add(size_t rows) {
  last_drawn_.grow_to(rows * sizeof(TokenId));
  Return& way = free_return(rows);
  std::fill_n(way.tokens.as<TokenId>(), rows, kUnknown);
  way.ticket = ++last_;
  way.noted = 0;
  return {way.ticket, way.tokens.as<TokenId>()};
}

DrawnTokens::Return& DrawnTokens::find(DrawTicket ticket) {
  const auto found = std::ranges::find(returns_, ticket, [](const auto& way) { return way->ticket; });
  CHECK(ticket != kNoDraw && found != returns_.end());
  return **found;
}

std::uint64_t DrawnTokens::take(DrawTicket ticket, std::span<TokenId> tokens) {
  Return& way = find(ticket);
  CHECK(tokens.size() <= way.rows);
  TokenId* from = way.tokens.as<TokenId>();
  for (TokenId& token : tokens) token = wait_for(*from++);
  way.ticket = kNoDraw;
  return tokens.empty() ? 0 : way.noted;
}

// Each token is written at once, and is all there is to see: no event need be put on the stream and asked for.
TokenId DrawnTokens::wait_for(TokenId& at) const {
  constexpr std::uint32_t kLooksAtMemory = 1 << 15;  // a millisecond or more
  const std::atomic_ref<TokenId> token(at);
  for (std::uint32_t looks = 1;; ++looks) {
    const TokenId seen = token.load(std::memory_order_relaxed);
    if (seen != kUnknown) return seen;
    if (looks % kLooksAtMemory == 0) look_at_device(at);
    pause_cpu();
  }
}

// A device that failed writes no token: whoever waits must hear of it.
void DrawnTokens::look_at_device(TokenId& at) const {
  const cudaError_t state = cudaStreamQuery(stream_);
  if (state == cudaErrorNotReady) return;
  check(state, "waiting for tokens");
  CHECK(std::atomic_ref<TokenId>(at).load(std::memory_order_relaxed) != kUnknown);  // or it was never put there
}

DrawnTokens::Return& DrawnTokens::free_return(size_t rows) {
  const auto found =
      std::ranges::find_if(returns_, [rows](const auto& way) { return way->ticket == kNoDraw && way->rows >= rows; });
  if (found != returns_.end()) return **found;
  auto made = std::make_unique<Return>();
  made->rows = std::max(rows, kFirstRows);
  made->tokens = pinned_memory(made->rows * sizeof(TokenId));
  return *returns_.emplace_back(std::move(made));
}

}  // namespace kvasir::cuda
