// The sequences of a batch on the device: their views, with block tables that kernels can read.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/runtime/staging.h"
#include "layout/kv_view.h"

namespace kvasir::cuda {

struct DeviceSequences {
  const SequenceView* at = nullptr;      // device memory
  int rows = 0;                          // summed over the sequences
  std::vector<const BlockId*> tables{};  // device memory, by sequence
};

// The number of rows if every sequence of the batch has one row (a decode batch), else 0.
int rows_of_single_tokens(std::span<const std::vector<SequenceView>> groups);

class SequenceTables {
 public:
  explicit SequenceTables(Staging& staging) : staging_(staging) {}

  // Uploads the sequences of these groups. Until end(), find() knows them by their host address.
  void begin(std::span<const std::vector<SequenceView>> groups, int block_tokens);
  void end() { known_.clear(); }
  bool in_batch() const { return !known_.empty(); }
  bool knows(std::span<const SequenceView> sequences) const { return known(sequences) != nullptr; }

  // Uploads them unless begin() did; without block tables if block_tokens is 0, but those whose length
  // they say themselves.
  const DeviceSequences& find(std::span<const SequenceView> sequences, int block_tokens);
  DeviceSequences send(std::span<const SequenceView> sequences, int block_tokens);

 private:
  struct Known {
    const SequenceView* host = nullptr;
    size_t count = 0;
    DeviceSequences device;
  };
  const Known* known(std::span<const SequenceView> sequences) const;

  Staging& staging_;
  std::vector<Known> known_;
  DeviceSequences last_;  // uploaded outside of a batch
};

}  // namespace kvasir::cuda
