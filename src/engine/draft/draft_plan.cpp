#include "engine/draft/draft_plan.h"

#include <algorithm>

namespace kvasir {
namespace {

constexpr double kWorthwhile = 1.03;  // estimates are no better than that
constexpr double kLeastGain = 0.02;   // a row that is right so seldom pays nowhere

}  // namespace

// A row is worth less than those before it on its path, so that with each row of the sorted list's first ones there
// are these, too.
const DraftPlan::Choice& DraftPlan::choose(std::span<const DraftOffer> offers, const StepOutlook& outlook,
                                           const PassCosts& costs) {
  choice_.tokens.assign(offers.size(), 0);
  choice_.pays = false;
  choice_.plain_tokens_per_second = choice_.tokens_per_second = outlook.decoding / costs.seconds(outlook.rows);
  rows_.clear();
  for (std::size_t i = 0; i < offers.size(); ++i) {
    offers[i].acceptance->reaches(*offers[i].draft, reaches_);
    for (std::size_t token = 0; token < reaches_.size(); ++token) {
      if (reaches_[token] >= kLeastGain) rows_.push_back({reaches_[token], i, token});
    }
  }
  std::ranges::stable_sort(rows_, std::ranges::greater{}, &Row::gain);
  const std::size_t most = std::min<std::size_t>(rows_.size(), static_cast<std::size_t>(std::max(outlook.most, 0)));
  double tokens = outlook.decoding;
  double best = kWorthwhile * choice_.plain_tokens_per_second;
  std::size_t best_rows = 0;
  for (std::size_t n = 0; n < most; ++n) {
    tokens += rows_[n].gain;
    const double seconds = costs.seconds(outlook.rows + static_cast<int>(n) + 1);
    if (tokens / seconds <= best) continue;
    best = tokens / seconds;
    best_rows = n + 1;
  }
  if (best_rows == 0) return choice_;
  choice_.pays = true;
  choice_.tokens_per_second = best;
  for (std::size_t n = 0; n < best_rows; ++n) choice_.tokens[rows_[n].offer] |= std::uint64_t{1} << rows_[n].token;
  return choice_;
}

}  // namespace kvasir
