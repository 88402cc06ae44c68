#include "backend/cuda/drawn_tokens.h"

#include <algorithm>

#include "base/check.h"

namespace kvasir::cuda {

void DrawnTokens::take(DrawTicket ticket, std::span<TokenId> tokens) {
  const auto found = std::ranges::find(returns_, ticket, [](const auto& way) { return way->ticket; });
  CHECK(ticket != kNoDraw && found != returns_.end() && tokens.size() <= (*found)->rows);
  (*found)->there.wait();
  std::copy_n((*found)->tokens.get(), tokens.size(), tokens.begin());
  (*found)->ticket = kNoDraw;
}

DrawnTokens::Return& DrawnTokens::free_return(size_t rows) {
  const auto found =
      std::ranges::find_if(returns_, [rows](const auto& way) { return way->ticket == kNoDraw && way->rows >= rows; });
  if (found != returns_.end()) return **found;
  auto made = std::make_unique<Return>();
  made->rows = std::max(rows, kFirstRows);
  void* at = nullptr;
  check(cudaMallocHost(&at, made->rows * sizeof(TokenId)), "pinned memory");
  made->tokens.reset(static_cast<TokenId*>(at));
  return *returns_.emplace_back(std::move(made));
}

}  // namespace kvasir::cuda
