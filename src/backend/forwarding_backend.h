// A backend that hands everything on to another: to derive from, where one or two ops are to be more than that.
// Whoever changes an op changes those that are made of it as well: rope_kv_write() of the other one does not come
// back here.
#pragma once

#include <memory>
#include <utility>

#include "backend/backend.h"

namespace kvasir {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> plain) : plain_(std::move(plain)) {}

  std::string description() const override { return plain_->description(); }
  std::string kernel_version() const override { return plain_->kernel_version(); }
  Buffer allocate(size_t bytes) override { return plain_->allocate(bytes); }
  std::uint64_t room_for_cache() const override { return plain_->room_for_cache(); }
  void upload(std::byte* to, std::span<const std::byte> from) override { plain_->upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { plain_->download(to, from); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { plain_->copy(to, from, bytes); }
  Buffer allocate_on_host(size_t bytes) override { return plain_->allocate_on_host(bytes); }
  void save(std::span<const HostCopy> pieces) override { plain_->save(pieces); }
  void restore(std::span<const HostCopy> pieces) override { plain_->restore(pieces); }
  void finish() override { plain_->finish(); }
  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked) override { return plain_->load(stacked); }
  void begin_batch(std::span<const std::vector<SequenceView>> groups, int block_tokens) override {
    plain_->begin_batch(groups, block_tokens);
  }
  // No repeats, unless who derives from it asks for them: it would not see their ops.
  BatchId end_batch() override {
    plain_->end_batch();
    return kNoBatch;
  }
  const std::int32_t* send_places(std::span<const std::int32_t> places) override {
    return plain_->send_places(places);
  }
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
  void kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) override {
    plain_->kv_write(k, v, view, sequences);
  }
  void attention(const AttentionBatch& batch, Matrix out) override { plain_->attention(batch, out); }
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
  void add_rms_norm(Matrix x, Matrix y, const NormRule& norm, Matrix out) override {
    plain_->add_rms_norm(x, y, norm, out);
  }
  void gated_matmul(const Weight& weight, Matrix gate, Matrix up, const float* bias, Matrix out) override {
    plain_->gated_matmul(weight, gate, up, bias, out);
  }
  void norm_matmul(const NormedRows& rows, const Weight& weight, const float* bias, Matrix out) override {
    plain_->norm_matmul(rows, weight, bias, out);
  }
  void feed_forward(const NormedRows& rows, const GatedLayer& layer, Matrix gate_up, Matrix out) override {
    plain_->feed_forward(rows, layer, gate_up, out);
  }
  void rope_kv_write(const UnturnedRows& rows, const KvView& view, std::span<const SequenceView> sequences) override {
    plain_->rope_kv_write(rows, view, sequences);
  }
  DrawTicket draw(Matrix logits, std::span<const DrawRule> rules) override { return plain_->draw(logits, rules); }
  DrawTicket last_draw() const override { return plain_->last_draw(); }
  void take_drawn(DrawTicket ticket, std::span<TokenId> tokens) override { plain_->take_drawn(ticket, tokens); }

 protected:
  Backend& plain() { return *plain_; }

 private:
  std::unique_ptr<Backend> plain_;
};

}  // namespace kvasir
