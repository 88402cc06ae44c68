#include "backend/cuda/drawn_tokens.h"

#include <algorithm>

#include "backend/cuda/draw_rows.h"
#include "backend/cuda/pinned_memory.h"
#include "base/check.h"

namespace kvasir::cuda {

DrawTicket DrawnTokens::add(Matrix logits, std::span<const DrawRule> rules) {
  last_drawn_.grow_to(rules.size() * sizeof(TokenId));
  Return& way = free_return(rules.size());
  std::ranges::copy(rules, way.rules.as<DrawRule>());
  draw_rows(
      {logits, way.rules.as<DrawRule>(), reinterpret_cast<TokenId*>(last_drawn_.data()), way.tokens.as<TokenId>()},
      stream_);
  way.there.mark(stream_);
  way.ticket = ++last_;
  return way.ticket;
}

void DrawnTokens::take(DrawTicket ticket, std::span<TokenId> tokens) {
  const auto found = std::ranges::find(returns_, ticket, [](const auto& way) { return way->ticket; });
  CHECK(ticket != kNoDraw && found != returns_.end() && tokens.size() <= (*found)->rows);
  (*found)->there.wait();
  std::copy_n((*found)->tokens.as<TokenId>(), tokens.size(), tokens.begin());
  (*found)->ticket = kNoDraw;
}

DrawnTokens::Return& DrawnTokens::free_return(size_t rows) {
  const auto found =
      std::ranges::find_if(returns_, [rows](const auto& way) { return way->ticket == kNoDraw && way->rows >= rows; });
  if (found != returns_.end()) return **found;
  auto made = std::make_unique<Return>();
  made->rows = std::max(rows, kFirstRows);
  made->rules = pinned_memory(made->rows * sizeof(DrawRule));
  made->tokens = pinned_memory(made->rows * sizeof(TokenId));
  return *returns_.emplace_back(std::move(made));
}

}  // namespace kvasir::cuda
