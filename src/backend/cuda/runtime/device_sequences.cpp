#include "backend/cuda/runtime/device_sequences.h"

#include <algorithm>

namespace kvasir::cuda {

int rows_of_single_tokens(std::span<const std::vector<SequenceView>> groups) {
  int rows = 0;
  for (const std::vector<SequenceView>& group : groups) {
    for (const SequenceView& sequence : group) {
      if (sequence.rows != 1) return 0;
      rows = std::max(rows, sequence.first_row + 1);
    }
  }
  return rows;
}

void SequenceTables::begin(std::span<const std::vector<SequenceView>> groups, int block_tokens) {
  known_.clear();
  for (const std::vector<SequenceView>& group : groups) {
    if (!group.empty()) known_.push_back({group.data(), group.size(), send(group, block_tokens)});
  }
}

const SequenceTables::Known* SequenceTables::known(std::span<const SequenceView> sequences) const {
  const auto is_it = [&](const Known& one) { return one.host == sequences.data() && one.count == sequences.size(); };
  const auto found = std::ranges::find_if(known_, is_it);
  return found == known_.end() ? nullptr : &*found;
}

const DeviceSequences& SequenceTables::find(std::span<const SequenceView> sequences, int block_tokens) {
  if (const Known* there = known(sequences)) return there->device;
  return last_ = send(sequences, block_tokens);
}

// One copy brings the views and, after them, the ancestors of trees and all block tables.
DeviceSequences SequenceTables::send(std::span<const SequenceView> sequences, int block_tokens) {
  const auto blocks_of = [block_tokens](const SequenceView& sequence) {
    if (sequence.blocks == nullptr) return size_t{0};  // it reads nothing, and writes nothing
    if (sequence.block_count > 0) return static_cast<size_t>(sequence.block_count);
    if (block_tokens == 0) return size_t{0};
    const Position end = std::max<Position>(sequence.start + sequence.rows, sequence.keys);
    return static_cast<size_t>((end + block_tokens - 1) / block_tokens);
  };
  const auto tree_rows_of = [](const SequenceView& sequence) {
    return sequence.ancestors == nullptr ? size_t{0} : static_cast<size_t>(sequence.rows);
  };
  size_t tree = sequences.size_bytes();
  size_t table = tree;
  for (const SequenceView& sequence : sequences) table += tree_rows_of(sequence) * sizeof(std::uint64_t);
  size_t bytes = table;
  for (const SequenceView& sequence : sequences) bytes += blocks_of(sequence) * sizeof(BlockId);
  const Staging::Region region = staging_.take(bytes);
  auto* views = reinterpret_cast<SequenceView*>(region.host);
  DeviceSequences out{reinterpret_cast<const SequenceView*>(region.device)};
  out.tables.reserve(sequences.size());
  for (const SequenceView& sequence : sequences) {
    const size_t count = blocks_of(sequence);
    const size_t tree_rows = tree_rows_of(sequence);
    std::copy_n(sequence.blocks, count, reinterpret_cast<BlockId*>(region.host + table));
    std::copy_n(sequence.ancestors, tree_rows, reinterpret_cast<std::uint64_t*>(region.host + tree));
    *views = sequence;
    views->blocks = reinterpret_cast<const BlockId*>(region.device + table);
    if (tree_rows > 0) views->ancestors = reinterpret_cast<const std::uint64_t*>(region.device + tree);
    out.tables.push_back(views->blocks);
    ++views;
    table += count * sizeof(BlockId);
    tree += tree_rows * sizeof(std::uint64_t);
    out.rows += sequence.rows;
  }
  staging_.send(region, bytes);
  return out;
}

}  // namespace kvasir::cuda
