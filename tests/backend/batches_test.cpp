// What a backend knows of a whole batch, and of batches before it, changes no bit of an op.
#include "backend/backends.h"
#include "backend/device_rows.h"
#include "backend/kv_storage.h"

namespace kvasir::testing {
namespace {

// Sequences that begin with the same blocks, enough of them for every backend to read those once.
class BeginAlikeTest : public ::testing::TestWithParam<Form> {
 protected:
  static constexpr int kHeads = 32;
  static constexpr int kKvHeads = 8;
  static constexpr int kDim = 128;
  static constexpr int kBlock = 16;
  static constexpr BlockId kPrefix = 48;  // blocks
  static constexpr BlockId kOwn = 2;
  static constexpr int kSequences = 13;

  BeginAlikeTest() {
    storage_.set_group(0, kGroup);
    std::vector<std::uint16_t> numbers(static_cast<size_t>(storage_.layout(0).block_bytes()) / 2);
    for (BlockId block = 0; block < kBlocks; ++block) {
      for (size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = CodecBF16::encode(noise(static_cast<std::uint64_t>(block), i));
      storage_.write_block(0, block, std::as_bytes(std::span(numbers)));
    }
    for (BlockId i = 0; i < kSequences; ++i) {
      for (BlockId block = 0; block < kPrefix; ++block) tables_[static_cast<size_t>(i)].push_back(block);
      for (BlockId block = 0; block < kOwn; ++block) {
        tables_[static_cast<size_t>(i)].push_back(kPrefix + kOwn * i + block);
      }
      sequences_[0].push_back({tables_[static_cast<size_t>(i)].data(), kPrefix * kBlock + i, i, 1});
    }
  }

  std::vector<float> attend() {
    const DeviceRows out(*backend_, OwnedMatrix(kSequences, kHeads * kDim));
    backend_->run(AttentionOp{{q_.view(), storage_.view(0, 0), sequences_[0], kHeads, {0.1F}}, out.view()});
    return out.values();
  }
  std::vector<float> attend_in_a_batch() {
    backend_->begin_batch(sequences_, kBlock);
    backend_->run(AttentionOp{{q_.view(), storage_.view(0, 0), sequences_[0], kHeads, {0.1F}}, out_.view()});
    backend_->end_batch();
    return out_.values();
  }

  static inline const KvGroup kGroup{{0}, {kKvHeads, kDim, kDim}, KvFormat::kBF16, KvFormat::kBF16, {}};
  static constexpr BlockId kBlocks = kPrefix + kOwn * kSequences + 1;

  std::unique_ptr<Backend> backend_ = make_plain(GetParam());
  KvStorage storage_{*backend_, {kBlocks, make_layout(kGroup, kBlock).block_bytes()}, kBlock};
  DeviceRows q_{*backend_, OwnedMatrix(kSequences, kHeads* kDim)};
  DeviceRows out_{*backend_, OwnedMatrix(kSequences, kHeads* kDim)};
  std::vector<BlockId> tables_[kSequences];
  std::vector<std::vector<SequenceView>> sequences_{1};
};

INSTANTIATE_TEST_SUITE_P(Forms, BeginAlikeTest, ::testing::ValuesIn(all_forms()), form_name);

TEST_P(BeginAlikeTest, BatchAfterBatchHasTheBitsOfOneOp) {
  for (std::uint64_t step = 0; step < 8; ++step) {
    // One of them begins with another block than the others from the sixth step on.
    if (step == 5) tables_[4][7] = kBlocks - 1;
    q_.set(OwnedMatrix(kSequences, kHeads * kDim, step + 1));
    EXPECT_EQ(attend_in_a_batch(), attend()) << step;
    for (SequenceView& sequence : sequences_[0]) ++sequence.start;
  }
}

}  // namespace
}  // namespace kvasir::testing
