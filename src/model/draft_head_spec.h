// A draft head as data: see draft_head.h.
#pragma once

#include <cstdint>
#include <vector>

namespace kvasir {

// A head that guesses what another model, its target, says next: a few layers whose every row reads a token and what
// the target made of the token before it. A row stands where the token before it stands. Tables of tokens, and a head
// that files do not have apart, are the target's.
struct DraftHeadSpec {
  enum class Kind : std::uint8_t {
    kNone,
    kNextN,   // MTP: [norm(embedding); norm(given)] through a matrix is the stream of ordinary layers
    kEagle3,  // given rows are the stream, and attention of the first layer reads [norm(embedding); norm(stream)]
  };
  // What stands for the target's rows where the head goes on behind its own guess: its stream, or that normalized.
  enum class Feeds : std::uint8_t { kStream, kNormed };

  Kind kind = Kind::kNone;
  Feeds feeds = Feeds::kStream;
  std::vector<int> reads = {};      // of the target: its stream behind so many layers, or kNormedRows
  int target_layers = 0;            // files count a head's layers from here
  bool residual_is_normed = false;  // kEagle3: the stream begins with given rows as they are normalized

  static constexpr int kNormedRows = -1;  // as the target's head reads them

  bool none() const { return kind == Kind::kNone; }
  int features(int hidden) const { return hidden * static_cast<int>(reads.size()); }  // numbers of a given row
  friend bool operator==(const DraftHeadSpec&, const DraftHeadSpec&) = default;
};

}  // namespace kvasir
