// Sequences that fly on together: the same ones, a token each, step after step.
//
// What a step needs of each lies side by side here, and what it learns is noted here first: the sequence and the
// cache hear of it when a block is full, when somebody comes, ends or is cancelled, and when somebody asks. So a step
// touches a few lines of memory for a sequence where the sequence, its lease and its tables are some thirty, which
// others have driven from the caches while the host waited.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/ids.h"
#include "engine/sequence.h"

namespace kvasir {

// INVARIANT, between two steps: the sequence's tokens and `noted` behind them are all that is known; the lease's and
// `cached` more are all but the last of these, whose row is in the air.
struct alignas(64) FormationMember {
  static constexpr size_t kMostNoted = 20;  // more than a block of the usual size, and two lines of memory in all
  static constexpr size_t kMostStops = 4;

  Sequence* sequence = nullptr;
  std::int64_t left = 0;  // tokens that it may be given, the one in the air included
  std::int32_t room = 0;  // rows of its last block behind the one in the air
  std::int32_t view = 0;  // its place among the batch's sequences of its policy
  std::uint32_t tenant = 0;
  std::uint16_t known = 0;  // of `noted`
  std::uint16_t cached = 0;
  std::array<TokenId, kMostStops> stops{-1, -1, -1, -1};  // -1: none
  std::array<TokenId, kMostNoted> noted{};

  bool stops_at(TokenId token) const { return std::ranges::find(stops, token) != stops.end(); }  // or is no token
  void note(TokenId token) {
    noted[known++] = token;
    --left;
  }
};
static_assert(sizeof(FormationMember) == 128);

}  // namespace kvasir
