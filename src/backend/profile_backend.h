// A backend that times another one: what each op of a step takes, and how many bytes it reads.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"

namespace kvasir {

// All calls of one kind: an op, or a product with weights of one shape and type.
struct OpProfile {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  double bytes = 0;  // weights, cached keys and values, or rows: whichever the op is there to read
};

// Passes everything on. The other backend outlives it, and gives the same bits through it.
class ProfileBackend final : public Backend {
 public:
  explicit ProfileBackend(Backend& inner) : inner_(inner) {}

  const std::vector<OpProfile>& ops() const { return ops_; }  // in the order of their first calls
  void forget();

  std::string description() const override { return inner_.description(); }
  std::string kernel_version() const override { return inner_.kernel_version(); }
  Buffer allocate(size_t bytes) override { return inner_.allocate(bytes); }
  std::uint64_t room_for_cache() const override { return inner_.room_for_cache(); }
  void upload(std::byte* to, std::span<const std::byte> from) override { inner_.upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { inner_.download(to, from); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { inner_.copy(to, from, bytes); }
  Buffer allocate_on_host(size_t bytes) override { return inner_.allocate_on_host(bytes); }
  void save(std::span<const HostCopy> pieces) override { inner_.save(pieces); }
  void restore(std::span<const HostCopy> pieces) override { inner_.restore(pieces); }
  void finish() override { inner_.finish(); }
  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked) override { return inner_.load(stacked); }

  void begin_batch(std::span<const std::vector<SequenceView>> groups, int block_tokens) override {
    inner_.begin_batch(groups, block_tokens);
  }
  BatchId end_batch() override {
    inner_.end_batch();
    return kNoBatch;  // each op is to be timed each time
  }
  const std::int32_t* send_places(std::span<const std::int32_t> places) override {
    return inner_.send_places(places);
  }
  void embed(const Weight& table, std::span<const TokenId> tokens, Matrix out) override;
  void rms_norm(Matrix x, const float* weight, float eps, Matrix out) override;
  void layer_norm(Matrix x, const float* weight, const float* bias, float eps, Matrix out) override;
  void matmul(const Weight& weight, Matrix x, const float* bias, Matrix out) override;
  void rope(Matrix x, int heads, const RopeTable& table) override;
  void project(Matrix x, int heads, const HeadMatrices& by, std::span<const SequenceView> sequences,
               Matrix out) override;
  void kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) override;
  void attention(const AttentionBatch& batch, Matrix out) override;
  void merge_attention(AttentionPart into, AttentionPart from, std::span<const SequenceView> sequences) override;
  void watch_attention(const AttentionBatch& batch, const AttentionWatch& watch) override;
  void kv_move(const KvView& view, const BlockId* blocks, std::span<const RowMove> moves) override;
  void swiglu(Matrix gate, Matrix up, Matrix out) override;
  void add(Matrix x, Matrix y) override;
  void add_rms_norm(Matrix x, Matrix y, const NormRule& norm, Matrix out) override;
  void gated_matmul(const Weight& weight, Matrix gate, Matrix up, const float* bias, Matrix out) override;
  void rope_kv_write(const UnturnedRows& rows, const KvView& view, std::span<const SequenceView> sequences) override;
  DrawTicket draw(Matrix logits, std::span<const DrawRule> rules) override;
  DrawTicket last_draw() const override { return inner_.last_draw(); }
  void take_drawn(DrawTicket ticket, std::span<TokenId> tokens) override { inner_.take_drawn(ticket, tokens); }

 private:
  template <class Call>
  void timed(const std::string& name, double bytes, const Call& call);

  Backend& inner_;
  std::vector<OpProfile> ops_;
};

}  // namespace kvasir
