#include "backend/cuda/drawn_tokens.h"

#include <algorithm>
#include <type_traits>

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
  const auto pin = [&](auto& to) {
    using T = std::remove_reference_t<decltype(to[0])>;
    void* at = nullptr;
    check(cudaMallocHost(&at, made->rows * sizeof(T)), "pinned memory");
    to.reset(static_cast<T*>(at));
  };
  pin(made->rules);
  pin(made->tokens);
  return *returns_.emplace_back(std::move(made));
}

}  // namespace kvasir::cuda
