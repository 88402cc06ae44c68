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

const DeviceSequences& SequenceTables::find(std::span<const SequenceView> sequences, int block_tokens) {
  for (const Known& known : known_) {
    if (known.host == sequences.data() && known.count == sequences.size()) return known.device;
  }
  return last_ = send(sequences, block_tokens);
}

// One copy brings the views and, after them, their block tables.
DeviceSequences SequenceTables::send(std::span<const SequenceView> sequences, int block_tokens) {
  const auto blocks_of = [block_tokens](const SequenceView& sequence) {
    if (block_tokens == 0) return size_t{0};
    return static_cast<size_t>((sequence.start + sequence.rows + block_tokens - 1) / block_tokens);
  };
  size_t bytes = sequences.size_bytes();
  for (const SequenceView& sequence : sequences) bytes += blocks_of(sequence) * sizeof(BlockId);
  const Staging::Region region = staging_.take(bytes);
  auto* views = reinterpret_cast<SequenceView*>(region.host);
  size_t offset = sequences.size_bytes();
  DeviceSequences out{reinterpret_cast<const SequenceView*>(region.device)};
  out.tables.reserve(sequences.size());
  for (const SequenceView& sequence : sequences) {
    const size_t count = blocks_of(sequence);
    std::copy_n(sequence.blocks, count, reinterpret_cast<BlockId*>(region.host + offset));
    *views = sequence;
    views->blocks = reinterpret_cast<const BlockId*>(region.device + offset);
    out.tables.push_back(views->blocks);
    ++views;
    offset += count * sizeof(BlockId);
    out.rows += sequence.rows;
  }
  staging_.send(region, bytes);
  return out;
}

}  // namespace kvasir::cuda
