// Another backend, but that it sums up what attention sees and gives: queries, keys and outputs of every head. The
// model that is watched is loaded with it. For backends whose memory is the host's.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "model/config.h"
#include "tune/rank_basis.h"

namespace kvasir {

class RankRecorder final : public Backend {
 public:
  RankRecorder(std::unique_ptr<Backend> plain, const ModelConfig& config);

  // Of everything until now: [layers][kv_heads]. REQUIRES: something was read.
  std::vector<std::vector<HeadMoments>> moments() const;

  std::string description() const override { return plain_->description(); }
  std::string kernel_version() const override { return plain_->kernel_version(); }
  Buffer allocate(size_t bytes) override { return plain_->allocate(bytes); }
  void upload(std::byte* to, std::span<const std::byte> from) override { plain_->upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { plain_->download(to, from); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { plain_->copy(to, from, bytes); }
  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked) override { return plain_->load(stacked); }
  void embed(const Weight& table, std::span<const TokenId> tokens, Matrix out) override {
    plain_->embed(table, tokens, out);
  }
  void rms_norm(Matrix x, const float* weight, float eps, Matrix out) override {
    plain_->rms_norm(x, weight, eps, out);
  }
  void layer_norm(Matrix x, const float* weight, const float* bias, float eps, Matrix out) override {
    plain_->layer_norm(x, weight, bias, eps, out);
  }
  void matmul(const Weight& weight, Matrix x, const float* bias, Matrix out) override {
    plain_->matmul(weight, x, bias, out);
  }
  void rope(Matrix x, int heads, const RopeTable& table) override { plain_->rope(x, heads, table); }
  void project(Matrix x, int heads, const HeadMatrices& by, std::span<const SequenceView> sequences,
               Matrix out) override {
    plain_->project(x, heads, by, sequences, out);
  }
  // A layer's keys come before its queries, and layers one after the other, each in one group of the cache.
  void kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) override;
  void attention(const AttentionBatch& batch, Matrix out) override;
  void merge_attention(AttentionPart into, AttentionPart from, std::span<const SequenceView> sequences) override {
    plain_->merge_attention(into, from, sequences);
  }
  void watch_attention(const AttentionBatch& batch, const AttentionWatch& watch) override {
    plain_->watch_attention(batch, watch);
  }
  void kv_move(const KvView& view, const BlockId* blocks, std::span<const RowMove> moves) override {
    plain_->kv_move(view, blocks, moves);
  }
  void swiglu(Matrix gate, Matrix up, Matrix out) override { plain_->swiglu(gate, up, out); }
  void add(Matrix x, Matrix y) override { plain_->add(x, y); }

 private:
  std::unique_ptr<Backend> plain_;
  std::vector<std::vector<HeadMoments>> sums_;  // [layers][kv_heads]; of symmetric squares the lower half
  size_t layer_ = 0;                            // whose turn it is
  std::int64_t rows_ = 0;                       // of the first layer
  int heads_;
};

}  // namespace kvasir
