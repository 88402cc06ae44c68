// A backend that repeats batches, as a GPU's does with its graphs: it keeps the ops of the last one as they were
// given, and runs these again with other inputs. Whoever says that two batches need the same ops when they do not
// gets what he asked for.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "backend/forwarding_backend.h"

namespace kvasir::testing {

// Over one that keeps its memory on the host.
class RepeatingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  std::string description() const override { return ForwardingBackend::description() + ", repeating"; }
  std::int64_t repeats() const { return repeats_; }

  void begin_batch(std::span<const std::vector<SequenceView>> groups, int block_tokens) override {
    ForwardingBackend::begin_batch(groups, block_tokens);
    ops_.clear();
    rope_rows_.clear();
    groups_.assign(groups.begin(), groups.end());
    ++batch_;
    in_batch_ = true;
  }
  BatchId end_batch() override {
    in_batch_ = false;
    ForwardingBackend::end_batch();
    return batch_;
  }
  bool replay_batch(BatchId batch, const BatchInputs& inputs) override {
    const auto at_its_place = [](std::span<const SequenceView> a, std::span<const SequenceView> b) {
      return a.data() == b.data() && a.size() == b.size();
    };
    if (batch != batch_ || !std::ranges::equal(inputs.groups, groups_, at_its_place)) return false;
    EXPECT_EQ(inputs.tokens.size(), tokens_.size());
    EXPECT_EQ(rope_rows_.size(), 1U);
    EXPECT_EQ(inputs.rope_rows.size(), rope_rows_.front().size());
    std::ranges::copy(inputs.tokens, tokens_.begin());
    std::ranges::copy(inputs.rope_rows, rope_rows_.front().begin());
    for (const Op& op : ops_) ForwardingBackend::run(op);
    ++repeats_;
    return true;
  }
  const std::int32_t* upload_rope_rows(std::span<const std::int32_t> rope_rows) override {
    return rope_rows_.emplace_back(rope_rows.begin(), rope_rows.end()).data();
  }

  void run(const Op& op) override {
    Op kept = op;
    if (auto* embed = std::get_if<EmbedOp>(&kept)) {
      tokens_.assign(embed->tokens.begin(), embed->tokens.end());
      embed->tokens = std::span<const TokenId>(tokens_);
    }
    ForwardingBackend::run(kept);
    if (in_batch_) ops_.push_back(kept);
  }

 private:
  bool in_batch_ = false;
  BatchId batch_ = kNoBatch;
  std::int64_t repeats_ = 0;
  std::vector<Op> ops_;
  std::vector<std::span<const SequenceView>> groups_;
  std::vector<TokenId> tokens_;
  std::deque<std::vector<std::int32_t>> rope_rows_;
};

}  // namespace kvasir::testing
