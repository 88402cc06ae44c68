#include "sample/logprobs.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace kvasir {

LogprobTable::LogprobTable(std::span<const float> logits, int top) {
  CHECK(!logits.empty() && top >= 0);
  const auto largest = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  log_sum_ = largest + std::log(sum);
  const size_t count = std::min(static_cast<size_t>(top), logits.size());
  if (count == 0) return;
  std::vector<TokenId> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  const auto likelier = [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), likelier);
  for (size_t i = 0; i < count; ++i) {
    const float logit = logits[static_cast<size_t>(order[i])];
    top_.push_back({order[i], static_cast<float>(static_cast<double>(logit) - log_sum_)});
  }
}

TokenLogprobs LogprobTable::of(float logit) const {
  return {static_cast<float>(static_cast<double>(logit) - log_sum_), top_};
}

}  // namespace kvasir
