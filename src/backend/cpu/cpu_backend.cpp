#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_attention.h"
#include "backend/cpu/cpu_matmul.h"
#include "backend/cpu/kernels.h"
#include "backend/merge_parts.h"
#include "base/check.h"
#include "base/thread_pool.h"
#include "layout/row_codec.h"

namespace kvasir {
namespace {

using cpu::mine;

class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, Isa isa, Activations activations)
      : isa_(isa),
        activations_(activations),
        pool_(threads),
        rows_(cpu::row_kernels(isa)),
        matmul_(isa, activations, pool_),
        attention_(isa, pool_) {}

  std::string description() const override {
    return fmt::format("cpu, {}, {} thread{}", name_of(isa_), pool_.threads(), pool_.threads() == 1 ? "" : "s");
  }
  // Neither the isa nor the threads change a bit.
  std::string kernel_version() const override { return fmt::format("cpu-3-{}", name_of(activations_)); }

  Buffer allocate(size_t bytes) override { return allocate_host(bytes); }
  void upload(std::byte* to, std::span<const std::byte> from) override { std::ranges::copy(from, to); }
  void download(std::span<std::byte> to, const std::byte* from) override { std::copy_n(from, to.size(), to.data()); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { std::memmove(to, from, bytes); }

  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked) override {
    const bool unrounded = activations_ == Activations::kF32 && is_quantized(stacked.front().dtype);
    return unrounded ? cpu::pack_decoded(stacked, pool_) : cpu::pack_weights(stacked, pool_);
  }

  void embed(const Weight& table, std::span<const TokenId> tokens, Matrix out) override {
    each_row(static_cast<int>(tokens.size()), [&](int r) {
      const TokenId token = tokens[static_cast<size_t>(r)];
      CHECK(token >= 0 && token < table.outputs());
      cpu::read_output(mine(table), token, out.row(r));
    });
  }

  void rms_norm(Matrix x, const float* weight, float eps, Matrix out) override {
    each_row(x.rows, [&](int r) { rows_.rms_norm(x.row(r), weight, eps, x.cols, out.row(r)); });
  }

  void layer_norm(Matrix x, const float* weight, const float* bias, float eps, Matrix out) override {
    each_row(x.rows, [&](int r) { rows_.layer_norm(x.row(r), weight, bias, eps, x.cols, out.row(r)); });
  }

  void matmul(const Weight& weight, Matrix x, const float* bias, Matrix out) override {
    matmul_.run(mine(weight), x, out);
    if (bias == nullptr) return;
    each_row(out.rows, [&](int r) { rows_.add(out.row(r), bias, out.cols); });
  }

  void rope(Matrix x, int heads, const RopeTable& table) override {
    each_row(x.rows, [&](int r) {
      const std::int64_t angle = table.first(r);
      for (int h = 0; h < heads; ++h) {
        rows_.rotate(x.row(r) + static_cast<std::ptrdiff_t>(h) * (x.cols / heads), table.cos + angle,
                     table.sin + angle, table.pairs);
      }
    });
  }

  void project(Matrix x, int heads, const HeadMatrices& by, std::span<const SequenceView> sequences,
               Matrix out) override {
    for (const SequenceView& sequence : sequences) {
      each_row(sequence.rows, [&](int i) {
        const int row = sequence.first_row + i;
        for (int h = 0; h < heads; ++h) {
          rows_.project(x.row(row) + static_cast<std::ptrdiff_t>(h) * by.inputs,
                        {by.at + h / (heads / by.heads) * by.head_stride, by.inputs, by.outputs, by.stride},
                        out.row(row) + static_cast<std::ptrdiff_t>(h) * by.outputs);
        }
      });
    }
  }

  void kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) override {
    const KvLayout& layout = view.layout;
    for (const SequenceView& sequence : sequences) {
      each_row(sequence.rows, [&](int i) {
        const Position position = sequence.start + i;
        RowPlace place{sequence.block_of(position, layout.block_tokens), 0,
                       static_cast<int>(position % layout.block_tokens)};
        const float* k_row = k.row(sequence.first_row + i);
        const float* v_row = v.row(sequence.first_row + i);
        for (; place.head < layout.shape.heads;
             ++place.head, k_row += layout.shape.k_dim, v_row += layout.shape.v_dim) {
          encode_k(view, place, k_row);
          encode_v(view, place, v_row);
        }
      });
    }
  }

  void attention(const AttentionBatch& batch, Matrix out) override { attention_.run(batch, out); }

  void merge_attention(AttentionPart into, AttentionPart from, std::span<const SequenceView> sequences) override {
    for (const SequenceView& sequence : sequences) {
      each_row(sequence.rows, [&](int i) { merge_part_rows(into, from, sequence.first_row + i); });
    }
  }

  void watch_attention(const AttentionBatch& batch, const AttentionWatch& watch) override {
    attention_.watch(batch, watch);
  }

  void kv_move(const KvView& view, const BlockId* blocks, std::span<const RowMove> moves) override {
    for (const RowMove& move : moves) move_row(view, blocks, move);
  }

  void swiglu(Matrix gate, Matrix up, Matrix out) override {
    each_row(out.rows, [&](int r) { rows_.swiglu(gate.row(r), up.row(r), out.cols, out.row(r)); });
  }

  void add(Matrix x, Matrix y) override {
    each_row(x.rows, [&](int r) { rows_.add(x.row(r), y.row(r), x.cols); });
  }

 private:
  // A few rows are cheaper to do than to hand out.
  template <class Body>
  void each_row(int rows, const Body& body) {
    constexpr int kWorthSharing = 8;
    constexpr int kRowsPerItem = 4;
    if (rows < kWorthSharing) {
      for (int r = 0; r < rows; ++r) body(r);
      return;
    }
    pool_.parallel_for((rows + kRowsPerItem - 1) / kRowsPerItem, [&](std::int64_t item, int) {
      const int first = static_cast<int>(item) * kRowsPerItem;
      for (int r = first; r < std::min(first + kRowsPerItem, rows); ++r) body(r);
    });
  }

  Isa isa_;
  Activations activations_;
  ThreadPool pool_;
  cpu::RowKernels rows_;
  cpu::Matmul matmul_;
  cpu::Attention attention_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads, Isa isa, Activations activations) {
  return std::make_unique<CpuBackend>(threads, isa, activations);
}

}  // namespace kvasir
