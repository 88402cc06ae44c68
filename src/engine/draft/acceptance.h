// How often a drafter's tokens are right in one sequence, by how sure it was of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/draft/draft.h"

namespace kvasir {

// Of this sequence alone: what other requests accept tells nothing here, and nobody else can see it.
class Acceptance {
 public:
  // Whether a token is its drafter's first guess of what follows another, or stands beside that one.
  enum class Place : std::uint8_t { kFirst, kBeside };
  static Place place_of(const Draft& draft, std::int32_t token) {
    return draft.stands_beside(token) ? Place::kBeside : Place::kFirst;
  }

  // The chance that a token is right, where those before it in its draft are.
  double of(float confidence, Place place = Place::kFirst) const {
    return rates_[static_cast<std::size_t>(place)][bucket(confidence)].right;
  }
  double overall() const { return overall_.right; }  // the same of any first guess

  void learn(float confidence, bool right, Place place = Place::kFirst) {
    rates_[static_cast<std::size_t>(place)][bucket(confidence)].learn(right);
    if (place == Place::kFirst) overall_.learn(right);
  }

  // By token of a draft: the chance that it and all before it are right. Their sum is how many will be accepted.
  void reaches(const Draft& draft, std::vector<double>& out) const {
    out.clear();
    for (std::int32_t i = 0; i < draft.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int32_t parent = draft.parents[at];
      const double before = parent < 0 ? 1 : out[static_cast<std::size_t>(parent)];
      out.push_back(before * of(draft.confidence[at], place_of(draft, i)));
    }
  }

 private:
  static constexpr double kMemory = 24;  // tokens: an average over about so many
  struct Rate {
    double right;
    double seen = 4;  // what is believed before anything is known weighs as much as so many tokens

    void learn(bool was_right) {
      seen = std::min(seen + 1, kMemory);
      right += ((was_right ? 1.0 : 0.0) - right) / seen;
    }
  };
  using Rates = std::array<Rate, 5>;  // by how sure a drafter was

  static std::size_t bucket(float confidence) {
    constexpr std::array<float, 4> kFrom{0.35F, 0.6F, 0.8F, 0.93F};
    return static_cast<std::size_t>(std::ranges::upper_bound(kFrom, confidence) - kFrom.begin());
  }

  std::array<Rates, 2> rates_{Rates{Rate{0.1}, Rate{0.3}, Rate{0.5}, Rate{0.65}, Rate{0.8}},
                              Rates{Rate{0.08}, Rate{0.2}, Rate{0.3}, Rate{0.3}, Rate{0.3}}};
  Rate overall_{0.6};
};

}  // namespace kvasir
