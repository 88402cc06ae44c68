// How often a drafter's tokens are right in one sequence, by how sure it was of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "engine/draft/drafter.h"

namespace kvasir {

// Of this sequence alone: what other requests accept tells nothing here, and nobody else can see it.
class Acceptance {
 public:
  // The chance that a token is right, where those before it in its draft are.
  double of(float confidence) const { return rates_[bucket(confidence)].right; }

  double overall() const { return overall_.right; }  // the same of any token

  void learn(float confidence, bool right) {
    for (Rate* rate : {&rates_[bucket(confidence)], &overall_}) {
      rate->seen = std::min(rate->seen + 1, kMemory);
      rate->right += ((right ? 1.0 : 0.0) - rate->right) / rate->seen;
    }
  }

  // How many of a draft's first `length` tokens will be accepted.
  double expected(const Draft& draft, std::size_t length) const {
    double reached = 1;
    double sum = 0;
    for (std::size_t i = 0; i < std::min(length, draft.tokens.size()); ++i) {
      reached *= of(draft.confidence[i]);
      sum += reached;
    }
    return sum;
  }

 private:
  static constexpr double kMemory = 24;  // tokens: an average over about so many
  struct Rate {
    double right;
    double seen = 4;  // what is believed before anything is known weighs as much as so many tokens
  };

  static std::size_t bucket(float confidence) {
    constexpr std::array<float, 4> kFrom{0.35F, 0.6F, 0.8F, 0.93F};
    return static_cast<std::size_t>(std::ranges::upper_bound(kFrom, confidence) - kFrom.begin());
  }

  std::array<Rate, 5> rates_{Rate{0.1}, Rate{0.3}, Rate{0.5}, Rate{0.65}, Rate{0.8}};
  Rate overall_{0.6};
};

}  // namespace kvasir
