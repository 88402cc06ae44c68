// The cosines and sines of positions in the backend's memory, where ops find those of a row by its place: a decode
// step sends a number for each of its rows, and computes nothing, most of the time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/ids.h"

namespace kvasir {

// INVARIANT: what a place holds is never changed while a batch may read it: positions that are remembered have places
// of their own for good, and the others' are taken anew by each batch, in the order of the backend's ops.
class RopeCache {
 public:
  struct Angles {
    std::vector<double> frequencies;
    double magnitude = 1.0;                            // of all cosines and sines
    std::function<double(Position)> query_scale = {};  // of a position's queries; none: they are not scaled
  };

  // context: of the model, whose positions are remembered, and some more. most_rows: of a batch.
  RopeCache(Backend& backend, Angles angles, Position context, int most_rows);

  // What a batch's rows are turned for.
  enum class Use : std::uint8_t { kRows, kSinks };
  // Before the batch begins: the place of each position, its angles computed and sent where they were not before.
  void find(Use use, std::span<const Position> positions, std::vector<std::int32_t>& rope_rows);

  // For a batch whose rows have these rope rows, in the backend's memory (Backend::upload_rope_rows).
  RopeTable at(const std::int32_t* rope_rows) const;

 private:
  // Beyond them positions are computed whenever they are asked for: endless texts take no memory.
  static constexpr Position kAtLeast = Position{1} << 15;
  static constexpr Position kAtMost = Position{1} << 17;
  static constexpr Position kTogether = 64;    // neighbours that are computed when one of them is wanted …
  static constexpr size_t kMostTogether = 16;  // … and so many times that, where a prompt goes on into them

  void remember(std::span<const Position> wanted);
  void put(std::span<const Position> positions, Position place);

  Backend& backend_;
  std::vector<double> frequencies_;
  float magnitude_;
  std::function<double(Position)> query_scale_;
  Position remembered_;  // positions, each at the place of its number; behind them, by use, most_rows for the others
  Position most_rows_;
  std::vector<bool> known_;  // [remembered / kTogether]
  Buffer cos_;               // [rope_rows][frequencies]
  Buffer sin_;
  Buffer scale_;               // [rope_rows], or none
  std::vector<Position> far_;  // a batch's, that are not remembered
  std::vector<Position> near_;
  std::vector<float> made_cos_;  // on their way there
  std::vector<float> made_sin_;
};

}  // namespace kvasir
