// The sequences of a batch on the device: their views, with block tables that kernels can read.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/staging.h"
#include "layout/kv_view.h"

namespace kvasir::cuda {

struct DeviceSequences {
  const SequenceView* at = nullptr;      // on the device
  int rows = 0;                          // of all of them
  std::vector<const BlockId*> tables{};  // on the device, by sequence
};

// Rows of a batch whose sequences have one each; 0 where one has more.
int rows_of_single_tokens(std::span<const std::vector<SequenceView>> groups);

class SequenceTables {
 public:
  explicit SequenceTables(Staging& staging) : staging_(staging) {}

  // Until end(), the sequences of these groups, found by their address, are on the device already.
  void begin(std::span<const std::vector<SequenceView>> groups, int block_tokens);
  void end() { known_.clear(); }
  bool in_batch() const { return !known_.empty(); }

  // Sends them where they are not there yet; without their tables, where block_tokens is 0.
  const DeviceSequences& find(std::span<const SequenceView> sequences, int block_tokens);
  DeviceSequences send(std::span<const SequenceView> sequences, int block_tokens);

 private:
  struct Known {
    const SequenceView* host = nullptr;
    size_t count = 0;
    DeviceSequences device;
  };

  Staging& staging_;
  std::vector<Known> known_;
  DeviceSequences last_;  // sent outside of a batch
};

}  // namespace kvasir::cuda
