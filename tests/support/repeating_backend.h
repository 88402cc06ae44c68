// A backend that repeats batches, as a GPU's does with its graphs: it keeps the ops of the last one as they were
// given, and runs these again with other inputs. Whoever says that two batches need the same ops when they do not
// gets what he asked for.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
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
    places_.clear();
    groups_.assign(groups.begin(), groups.end());
    ++batch_;
    in_batch_ = true;
  }
  BatchId end_batch() override {
    in_batch_ = false;
    ForwardingBackend::end_batch();
    return batch_;
  }
  bool repeat_batch(BatchId batch, const BatchInputs& inputs) override {
    const auto at_its_place = [](std::span<const SequenceView> a, std::span<const SequenceView> b) {
      return a.data() == b.data() && a.size() == b.size();
    };
    if (batch != batch_ || !std::ranges::equal(inputs.groups, groups_, at_its_place)) return false;
    EXPECT_EQ(inputs.tokens.size(), tokens_.size());
    EXPECT_EQ(places_.size(), 1U);
    EXPECT_EQ(inputs.places.size(), places_.front().size());
    std::ranges::copy(inputs.tokens, tokens_.begin());
    std::ranges::copy(inputs.places, places_.front().begin());
    for (const auto& op : ops_) op();
    ++repeats_;
    return true;
  }
  const std::int32_t* send_places(std::span<const std::int32_t> places) override {
    return places_.emplace_back(places.begin(), places.end()).data();
  }

  void embed(const Weight& table, std::span<const TokenId> tokens, Matrix out) override {
    tokens_.assign(tokens.begin(), tokens.end());
    perform([this, &table, out] { plain().embed(table, tokens_, out); });
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override {
    perform([this, to, from, bytes] { plain().copy(to, from, bytes); });
  }
  void rms_norm(Matrix x, const float* weight, float eps, Matrix out) override {
    perform([this, x, weight, eps, out] { plain().rms_norm(x, weight, eps, out); });
  }
  void matmul(const Weight& weight, Matrix x, const float* bias, Matrix out) override {
    perform([this, &weight, x, bias, out] { plain().matmul(weight, x, bias, out); });
  }
  void rope(Matrix x, int heads, const RopeTable& table) override {
    perform([this, x, heads, table] { plain().rope(x, heads, table); });
  }
  void project(Matrix x, int heads, const HeadMatrices& by, std::span<const SequenceView> sequences,
               Matrix out) override {
    perform([this, x, heads, by, sequences, out] { plain().project(x, heads, by, sequences, out); });
  }
  void kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) override {
    perform([this, k, v, view, sequences] { plain().kv_write(k, v, view, sequences); });
  }
  void attention(const AttentionBatch& batch, Matrix out) override {
    perform([this, batch, out] { plain().attention(batch, out); });
  }
  void merge_attention(AttentionPart into, AttentionPart from, std::span<const SequenceView> sequences) override {
    perform([this, into, from, sequences] { plain().merge_attention(into, from, sequences); });
  }
  void watch_attention(const AttentionBatch& batch, const AttentionWatch& watch) override {
    perform([this, batch, watch] { plain().watch_attention(batch, watch); });
  }
  void add(Matrix x, Matrix y) override {
    perform([this, x, y] { plain().add(x, y); });
  }
  void add_rms_norm(Matrix x, Matrix y, const NormRule& norm, Matrix out) override {
    perform([this, x, y, norm, out] { plain().add_rms_norm(x, y, norm, out); });
  }
  void gated_matmul(const Weight& weight, Matrix gate, Matrix up, const float* bias, Matrix out) override {
    perform([this, &weight, gate, up, bias, out] { plain().gated_matmul(weight, gate, up, bias, out); });
  }
  void norm_matmul(const NormedRows& rows, const Weight& weight, const float* bias, Matrix out) override {
    perform([this, rows, &weight, bias, out] { plain().norm_matmul(rows, weight, bias, out); });
  }
  void feed_forward(const NormedRows& rows, const GatedLayer& layer, Matrix gate_up, Matrix out) override {
    perform([this, rows, layer, gate_up, out] { plain().feed_forward(rows, layer, gate_up, out); });
  }
  void rope_kv_write(const UnturnedRows& rows, const KvView& view, std::span<const SequenceView> sequences) override {
    perform([this, rows, view, sequences] { plain().rope_kv_write(rows, view, sequences); });
  }

 private:
  template <class Op>
  void perform(Op op) {
    op();
    if (in_batch_) ops_.emplace_back(std::move(op));
  }

  bool in_batch_ = false;
  BatchId batch_ = kNoBatch;
  std::int64_t repeats_ = 0;
  std::vector<std::function<void()>> ops_;
  std::vector<std::span<const SequenceView>> groups_;
  std::vector<TokenId> tokens_;
  std::deque<std::vector<std::int32_t>> places_;
};

}  // namespace kvasir::testing
