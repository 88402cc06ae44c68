#include "backend/shared_prefixes.h"

#include <algorithm>

namespace kvasir {
namespace {

class Finder {
 public:
  Finder(std::span<const SequenceView> sequences, const PrefixPieces& size) : sequences_(sequences), size_(size) {}

  bool starts_with_piece(int sequence) const { return has(sequence, 0); }
  BlockId first_block(int sequence) const { return at(sequence).blocks[0]; }

  // Follows the most sequences from piece to piece, and takes those that are together where that saves the most. The
  // others stay in `left`.
  SharedPrefix take_best(std::vector<int>& left) const {
    SharedPrefix best;
    std::vector<int> together = left;
    for (int piece = 0;; ++piece) {
      together = most_alike(together, piece);
      if (together.size() < 2) break;
      if (saved({together, piece + 1}) > saved(best)) best = {together, piece + 1};
    }
    std::erase_if(left, [&](int one) { return std::ranges::find(best.sequences, one) != best.sequences.end(); });
    return best;
  }

  std::int64_t saved(const SharedPrefix& prefix) const {
    return (std::ssize(prefix.sequences) - 1 - size_.cost) * static_cast<std::int64_t>(prefix.pieces);
  }

 private:
  const SequenceView& at(int sequence) const { return sequences_[static_cast<size_t>(sequence)]; }
  std::span<const BlockId> piece_of(int sequence, int piece) const {
    const auto blocks = static_cast<size_t>(size_.blocks);
    return {at(sequence).blocks + static_cast<size_t>(piece) * blocks, blocks};
  }
  bool reaches(int sequence, int piece) const {
    return at(sequence).start >= (static_cast<Position>(piece) + 1) * size_.blocks * size_.block_tokens;
  }
  bool has(int sequence, int piece) const {
    if (!reaches(sequence, piece)) return false;
    const std::span<const BlockId> blocks = piece_of(sequence, piece);
    return std::ranges::find(blocks, kNoBlock) == blocks.end();
  }
  // Of those whose pieces before are the same, the most whose piece is.
  std::vector<int> most_alike(const std::vector<int>& of, int piece) const {
    std::vector<std::vector<int>> classes;
    for (const int one : of) {
      if (!reaches(one, piece)) continue;
      const auto same = std::ranges::find_if(classes, [&](const std::vector<int>& other) {
        return std::ranges::equal(piece_of(one, piece), piece_of(other.front(), piece));
      });
      if (same != classes.end()) {
        same->push_back(one);
      } else if (has(one, piece)) {
        classes.push_back({one});
      }
    }
    const auto most = std::ranges::max_element(classes, {}, &std::vector<int>::size);
    return most == classes.end() ? std::vector<int>() : *most;
  }

  std::span<const SequenceView> sequences_;
  PrefixPieces size_;
};

}  // namespace

std::vector<SharedPrefix> find_shared_prefixes(std::span<const SequenceView> sequences, std::span<const int> among,
                                               const PrefixPieces& size) {
  // Every step comes by here, and mostly nobody shares anything: so tables are looked at once, and no more.
  struct Start {
    BlockId block;
    int sequence;
  };
  const Finder finder(sequences, size);
  std::vector<Start> starts;
  starts.reserve(among.size());
  for (const int one : among) {
    if (finder.starts_with_piece(one)) starts.push_back({finder.first_block(one), one});
  }
  std::ranges::stable_sort(starts, {}, &Start::block);
  std::vector<SharedPrefix> out;
  std::vector<int> left;
  for (auto first = starts.begin(); first != starts.end();) {
    const auto end = std::find_if(first, starts.end(), [&](const Start& one) { return one.block != first->block; });
    left.clear();
    for (auto one = first; one != end; ++one) left.push_back(one->sequence);
    while (left.size() > 1) {
      SharedPrefix best = finder.take_best(left);
      if (best.sequences.empty()) break;
      if (finder.saved(best) >= size.least) out.push_back(std::move(best));
    }
    first = end;
  }
  return out;
}

}  // namespace kvasir
