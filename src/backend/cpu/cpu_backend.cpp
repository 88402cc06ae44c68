#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_attention.h"
#include "backend/cpu/cpu_experts.h"
#include "backend/cpu/cpu_matmul.h"
#include "backend/cpu/cpu_recurrent.h"
#include "backend/cpu/kernels.h"
#include "backend/lower.h"
#include "backend/merge_parts.h"
#include "base/check.h"
#include "base/thread_pool.h"
#include "layout/row_codec.h"

namespace kvasir {
namespace {

using cpu::mine;

class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, Isa isa, ActivationPrecision activations)
      : isa_(isa),
        activations_(activations),
        pool_(threads),
        rows_(cpu::row_kernels(isa)),
        matmul_(isa, activations, pool_),
        attention_(isa, pool_),
        recurrent_(isa, pool_),
        experts_(isa, matmul_, pool_) {}

  std::string description() const override {
    return fmt::format("cpu, {}, {} thread{}", name_of(isa_), pool_.threads(), pool_.threads() == 1 ? "" : "s");
  }
  // Neither the isa nor the threads change a bit.
  std::string kernel_version() const override { return fmt::format("cpu-3-{}", name_of(activations_)); }

  Buffer allocate(size_t bytes) override { return allocate_host(bytes); }
  void upload(std::byte* to, std::span<const std::byte> from) override { std::ranges::copy(from, to); }
  void download(std::span<std::byte> to, const std::byte* from) override { std::copy_n(from, to.size(), to.data()); }
  void run(const Op& op) override {
    std::visit([&](const auto& one) { compute(one); }, op);
  }

  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked) override {
    const bool unrounded = activations_ == ActivationPrecision::kF32 && is_quantized(stacked.front().dtype);
    if (unrounded) return cpu::pack_decoded(stacked, weight_memory_, pool_);
    return cpu::pack_weights(stacked, weight_memory_, pool_);
  }

 private:
  template <FusedOp T>
  void compute(const T& op) {
    lower(op, *this);
  }

  static void compute(const CopyOp& op) { std::memmove(op.to, op.from, op.bytes); }

  void compute(const EmbedOp& op) {
    each_row(static_cast<int>(op.tokens.size()), [&](int r) {
      const TokenId token = op.tokens[static_cast<size_t>(r)];
      CHECK(token >= 0 && token < op.table->outputs());
      cpu::read_output(mine(*op.table), token, op.out.row(r));
    });
  }

  void compute(const NormOp& op) {
    const int dim = op.width();
    each_row(op.x.rows, [&](int r) {
      for (int part = 0; part < op.heads; ++part) {
        const NormRule rule = op.rule_of(part);
        const int c = part * dim;
        const float* x = op.x.row(r) + c;
        if (rule.kind == NormRule::Kind::kRms) {
          rows_.rms_norm(x, rule.weight, rule.eps, dim, op.out.row(r) + c);
        } else {
          rows_.layer_norm(x, rule.weight, rule.bias, rule.eps, dim, op.out.row(r) + c);
        }
      }
    });
  }

  void compute(const MatmulOp& op) {
    matmul_.run(mine(*op.weight), op.x, op.out);
    if (op.bias == nullptr) return;
    each_row(op.out.rows, [&](int r) { rows_.add(op.out.row(r), op.bias, op.out.cols); });
  }

  void compute(const RopeOp& op) {
    each_row(op.x.rows, [&](int r) {
      const std::int64_t angle = op.table.first(r);
      for (int h = 0; h < op.heads; ++h) {
        rows_.rotate(op.x.row(r) + static_cast<std::ptrdiff_t>(h) * (op.x.cols / op.heads), op.table.cos + angle,
                     op.table.sin + angle, op.table.pairs);
      }
    });
  }

  // Head by head: its matrix is read once for all rows.
  void compute(const ProjectOp& op) {
    const PerHeadLinear& by = op.by;
    each_of(op.heads, std::int64_t{by.inputs} * by.outputs * op.x.rows, [&](int h) {
      const cpu::SmallMatrix matrix{by.at + h / (op.heads / by.heads) * by.head_stride, by.inputs, by.outputs,
                                    by.stride};
      for (const SequenceView& sequence : op.sequences) {
        for (int row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
          rows_.project(op.x.row(row) + static_cast<std::ptrdiff_t>(h) * by.inputs, matrix,
                        op.out.row(row) + static_cast<std::ptrdiff_t>(h) * by.outputs);
        }
      }
    });
  }

  void compute(const KvWriteOp& op) {
    const KvLayout& layout = op.view.layout;
    for (const SequenceView& sequence : op.sequences) {
      each_row(sequence.rows, [&](int i) {
        const Position position = sequence.start + i;
        RowPlace place{sequence.block_of(position, layout.block_tokens), 0,
                       static_cast<int>(position % layout.block_tokens)};
        const float* k_row = op.k.row(sequence.first_row + i);
        for (; place.head < layout.shape.heads; ++place.head, k_row += layout.shape.k_dim) {
          encode_k(op.view, place, k_row);
        }
        if (!layout.shape.has_v()) return;
        const float* v_row = op.v.row(sequence.first_row + i);
        for (place.head = 0; place.head < layout.shape.heads; ++place.head, v_row += layout.shape.v_dim) {
          encode_v(op.view, place, v_row);
        }
      });
    }
  }

  void compute(const AttentionOp& op) { attention_.run(op.batch, op.out); }

  void compute(const MergeAttentionOp& op) {
    each_row_of(op.sequences, [&](int row) { merge_part_rows(op.into, op.from, row); });
  }

  void compute(const WatchAttentionOp& op) { attention_.watch(op.batch, op.watch); }

  static void compute(const KvMoveOp& op) {
    for (const RowMove& move : op.moves) move_row(op.view, op.blocks, move);
  }

  void compute(const SwigluOp& op) {
    each_row(op.out.rows, [&](int r) { rows_.swiglu(op.gate.row(r), op.up.row(r), op.out.cols, op.out.row(r)); });
  }

  void compute(const ActivationOp& op) {
    each_row(op.out.rows, [&](int r) {
      const float* up = op.up.data == nullptr ? nullptr : op.up.row(r);
      if (op.activation == Activation::kSwigluOai) {
        rows_.swiglu_oai(op.x.row(r), up, op.limit, op.out.cols, op.out.row(r));
      } else {
        rows_.activate(op.activation, op.x.row(r), up, op.out.cols, op.out.row(r));
      }
    });
  }

  void compute(const ScaleOp& op) {
    each_row(op.x.rows, [&](int r) {
      float* x = op.x.row(r);
      for (int c = 0; c < op.x.cols; ++c) x[c] *= op.factor;
      for (int c = 0; op.softcap > 0 && c < op.x.cols; ++c) x[c] = op.softcap * std::tanh(x[c] / op.softcap);
      for (int c = 0; op.limit > 0 && c < op.x.cols; ++c) x[c] = std::clamp(x[c], -op.limit, op.limit);
    });
  }

  void compute(const ExpertsOp& op) { experts_.run(op); }

  void compute(const SigmoidGateOp& op) {
    const auto share = [](float gate) { return 1.0F / (1.0F + std::exp(-gate)); };
    each_row(op.x.rows, [&](int r) {
      float* x = op.x.row(r);
      const float* gate = op.gate.row(r);
      const bool one = op.gate.cols == 1;
      const float of_row = share(gate[0]);
      for (int c = 0; c < op.x.cols; ++c) x[c] *= one ? of_row : share(gate[c]);
    });
  }

  void compute(const QueryScaleOp& op) {
    each_row(op.x.rows, [&](int r) {
      const float scale = op.table.scale_of(r);
      float* x = op.x.row(r);
      for (int c = 0; c < op.x.cols; ++c) x[c] *= scale;
    });
  }

  void compute(const AddOp& op) {
    each_row(op.x.rows, [&](int r) { rows_.add(op.x.row(r), op.y.row(r), op.x.cols); });
  }

  void compute(const CausalConvOp& op) { recurrent_.run(op); }
  void compute(const DecayOp& op) { recurrent_.run(op); }
  void compute(const RecurrenceOp& op) { recurrent_.run(op); }
  void compute(const StateRoundOp& op) { recurrent_.run(op); }
  void compute(const StateEncodeOp& op) { recurrent_.run(op); }
  void compute(const StateDecodeOp& op) { recurrent_.run(op); }

  template <class Body>
  void each_row_of(std::span<const SequenceView> sequences, const Body& body) {
    for (const SequenceView& sequence : sequences) {
      each_row(sequence.rows, [&](int i) { body(sequence.first_row + i); });
    }
  }

  // Calls body(i) for each of `count`, which take so many operations each. A few are cheaper to do than to hand out.
  template <class Body>
  void each_of(int count, std::int64_t operations, const Body& body) {
    constexpr std::int64_t kWorthSharing = 1 << 16;
    if (count * operations < kWorthSharing) {
      for (int i = 0; i < count; ++i) body(i);
    } else {
      pool_.parallel_for(count, [&](std::int64_t i, int) { body(static_cast<int>(i)); });
    }
  }

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
  ActivationPrecision activations_;
  ThreadPool pool_;
  cpu::WeightMemory weight_memory_;
  cpu::RowKernels rows_;
  cpu::Matmul matmul_;
  cpu::Attention attention_;
  cpu::Recurrent recurrent_;
  cpu::Experts experts_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads, Isa isa, ActivationPrecision activations) {
  return std::make_unique<CpuBackend>(threads, isa, activations);
}

}  // namespace kvasir
