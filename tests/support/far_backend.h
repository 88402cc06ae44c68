// A backend whose memory the host cannot read or write, as a GPU's: a host backend that works on the same bytes at
// other addresses. Whoever forgets to download dies of it, and whoever gives an op memory of the host is told.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backend/forwarding_backend.h"

namespace kvasir::testing {

// Every allocation is there twice: without any access, where it is said to be, and elsewhere, for the ops.
class FarMemory {
 public:
  static Buffer allocate(size_t bytes) {
    const size_t size = (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
    const auto take = [size](int access) {
      void* memory = ::mmap(nullptr, size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) throw std::runtime_error("no memory");
      return static_cast<std::byte*>(memory);
    };
    std::byte* far = take(PROT_NONE);
    std::byte* near = take(PROT_READ | PROT_WRITE);
    const std::lock_guard lock(mutex());
    ranges()[far] = {size, near};
    return {far, bytes, free};
  }

  // Where an op finds what lies at `far`.
  template <class T>
  static T* near(T* far) {
    if (far == nullptr) return nullptr;
    const auto* at = reinterpret_cast<const std::byte*>(far);
    const std::lock_guard lock(mutex());
    auto range = ranges().upper_bound(at);
    if (range == ranges().begin() || at >= (--range)->first + range->second.bytes) {
      throw std::logic_error("an op was given memory that is not the backend's");
    }
    return reinterpret_cast<T*>(range->second.near + (at - range->first));
  }

 private:
  static constexpr size_t kPage = 4096;

  struct Range {
    size_t bytes = 0;
    std::byte* near = nullptr;
  };

  static void free(void* far, size_t) {
    const std::lock_guard lock(mutex());
    const auto range = ranges().find(static_cast<std::byte*>(far));
    ::munmap(far, range->second.bytes);
    ::munmap(range->second.near, range->second.bytes);
    ranges().erase(range);
  }
  // A buffer is given back without a word on whose it was.
  static std::map<const std::byte*, Range>& ranges() {
    static std::map<const std::byte*, Range> all;
    return all;
  }
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
};

class FarBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  std::string description() const override { return ForwardingBackend::description() + ", far"; }
  Buffer allocate(size_t bytes) override { return FarMemory::allocate(bytes); }
  void upload(std::byte* to, std::span<const std::byte> from) override { ForwardingBackend::upload(near(to), from); }
  void download(std::span<std::byte> to, const std::byte* from) override {
    ForwardingBackend::download(to, near(from));
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override {
    ForwardingBackend::copy(near(to), near(from), bytes);
  }
  const std::int32_t* send_places(std::span<const std::int32_t> places) override {
    const Buffer& sent = places_.emplace_back(allocate(places.size_bytes()));
    upload(sent.as<std::byte>(), std::as_bytes(places));
    return sent.as<std::int32_t>();
  }
  BatchId end_batch() override {
    ForwardingBackend::end_batch();
    places_.clear();
    return kNoBatch;
  }
  void save(std::span<const HostCopy> pieces) override { Backend::save(pieces); }
  void restore(std::span<const HostCopy> pieces) override { Backend::restore(pieces); }

  void embed(const Weight& table, std::span<const TokenId> tokens, Matrix out) override {
    ForwardingBackend::embed(table, tokens, near(out));
  }
  void rms_norm(Matrix x, const float* weight, float eps, Matrix out) override {
    ForwardingBackend::rms_norm(near(x), near(weight), eps, near(out));
  }
  void layer_norm(Matrix x, const float* weight, const float* bias, float eps, Matrix out) override {
    ForwardingBackend::layer_norm(near(x), near(weight), near(bias), eps, near(out));
  }
  void matmul(const Weight& weight, Matrix x, const float* bias, Matrix out) override {
    ForwardingBackend::matmul(weight, near(x), near(bias), near(out));
  }
  void rope(Matrix x, int heads, const RopeTable& table) override {
    ForwardingBackend::rope(near(x), heads, near(table));
  }
  void project(Matrix x, int heads, const HeadMatrices& by, std::span<const SequenceView> sequences,
               Matrix out) override {
    HeadMatrices matrices = by;
    matrices.at = near(by.at);
    ForwardingBackend::project(near(x), heads, matrices, sequences, near(out));
  }
  void kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) override {
    ForwardingBackend::kv_write(near(k), near(v), near(view), sequences);
  }
  void attention(const AttentionBatch& batch, Matrix out) override {
    ForwardingBackend::attention(near(batch), near(out));
  }
  void merge_attention(AttentionPart into, AttentionPart from, std::span<const SequenceView> sequences) override {
    ForwardingBackend::merge_attention(near(into), near(from), sequences);
  }
  void watch_attention(const AttentionBatch& batch, const AttentionWatch& watch) override {
    AttentionWatch watching = watch;
    watching.scores = near(watch.scores);
    ForwardingBackend::watch_attention(near(batch), watching);
  }
  void kv_move(const KvView& view, const BlockId* blocks, std::span<const RowMove> moves) override {
    ForwardingBackend::kv_move(near(view), blocks, moves);
  }
  void swiglu(Matrix gate, Matrix up, Matrix out) override {
    ForwardingBackend::swiglu(near(gate), near(up), near(out));
  }
  void add(Matrix x, Matrix y) override { ForwardingBackend::add(near(x), near(y)); }
  void add_rms_norm(Matrix x, Matrix y, const NormRule& norm, Matrix out) override {
    ForwardingBackend::add_rms_norm(near(x), near(y), {near(norm.weight), norm.eps}, near(out));
  }
  void gated_matmul(const Weight& weight, Matrix gate, Matrix up, const float* bias, Matrix out) override {
    ForwardingBackend::gated_matmul(weight, near(gate), near(up), near(bias), near(out));
  }
  void norm_matmul(const NormedRows& rows, const Weight& weight, const float* bias, Matrix out) override {
    ForwardingBackend::norm_matmul(near(rows), weight, near(bias), near(out));
  }
  void feed_forward(const NormedRows& rows, const GatedLayer& layer, Matrix gate_up, Matrix out) override {
    const GatedLayer here{layer.gate_up, near(layer.gate_up_bias), layer.down, near(layer.down_bias)};
    ForwardingBackend::feed_forward(near(rows), here, near(gate_up), near(out));
  }
  void rope_kv_write(const UnturnedRows& rows, const KvView& view, std::span<const SequenceView> sequences) override {
    ForwardingBackend::rope_kv_write(
        {near(rows.q), near(rows.k), near(rows.v), rows.heads, rows.kv_heads, near(rows.table)}, near(view),
        sequences);
  }
  DrawTicket draw(Matrix logits, std::span<const DrawRule> rules) override {
    return ForwardingBackend::draw(near(logits), rules);
  }

 private:
  template <class T>
  static T* near(T* far) {
    return FarMemory::near(far);
  }
  static Matrix near(Matrix x) {
    x.data = near(x.data);
    return x;
  }
  static RopeTable near(const RopeTable& table) {
    return {near(table.cos), near(table.sin), table.pairs, near(table.places)};
  }
  static KvView near(KvView view) {
    view.arena = near(view.arena);
    return view;
  }
  static NormedRows near(const NormedRows& rows) {
    return {near(rows.x), near(rows.y), {near(rows.norm.weight), rows.norm.eps}, near(rows.normed)};
  }
  static AttentionPart near(AttentionPart part) { return {near(part.out), near(part.states), part.heads}; }
  static AttentionBatch near(AttentionBatch batch) {
    batch.q = near(batch.q);
    batch.view = near(batch.view);
    batch.states = near(batch.states);
    return batch;
  }

  std::vector<Buffer> places_;  // of the batch
};

}  // namespace kvasir::testing
