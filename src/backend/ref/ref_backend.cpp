#include "backend/ref/ref_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "backend/lower.h"
#include "backend/merge_parts.h"
#include "backend/quant/int8_rows.h"
#include "backend/ref/ref_attention.h"
#include "backend/ref/ref_recurrent.h"
#include "backend/ref/ref_sample.h"
#include "backend/router.h"
#include "backend/weight_reader.h"
#include "base/check.h"
#include "layout/codec.h"
#include "layout/row_codec.h"

namespace kvasir {
namespace {

struct RefWeight final : Weight {
  using Weight::Weight;
  std::vector<float> values;  // [outputs][inputs]
  DType dtype = DType::kF32;  // of the file

  std::span<const std::byte> memory() const override { return std::as_bytes(std::span(values)); }
  const float* row(int r) const { return values.data() + static_cast<std::ptrdiff_t>(r) * inputs(); }
};

const RefWeight& mine(const Weight& weight) { return static_cast<const RefWeight&>(weight); }

float largest_of(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// A block of a row as it meets quantized weights: see Int8Block.
void round_block(std::span<float> block) {
  const float largest = largest_of(block);
  if (largest < kTiniest) {
    std::ranges::fill(block, 0.0F);
    return;
  }
  for (float& value : block) value = largest / 127.0F * std::nearbyint(value * (127.0F / largest));
}

// Likewise a group: see Int8Group.
void round_group(std::span<float> group) {
  const float largest = largest_of(group);
  if (largest < kTiniest) {
    std::ranges::fill(group, 0.0F);
    return;
  }
  for (size_t at = 0; at < group.size(); at += kInt8Block) {
    const std::span<float> part = group.subspan(at, kInt8Block);
    const auto finer = static_cast<float>(1 << (kMostShift - shift_of(largest_of(part), largest)));
    for (float& value : part) {
      value = largest / 127.0F / finer * std::nearbyint(value * (127.0F / largest * finer));
    }
  }
}

void normalize(const NormRule& rule, const float* x, int count, float* out) {
  double sum = 0;
  if (rule.kind == NormRule::Kind::kLayer) {
    for (int c = 0; c < count; ++c) sum += x[c];
  }
  const double mean = sum / count;
  double squares = 0;
  for (int c = 0; c < count; ++c) squares += (x[c] - mean) * (x[c] - mean);
  const double scale = 1.0 / std::sqrt(squares / count + static_cast<double>(rule.eps));
  for (int c = 0; c < count; ++c) {
    const float scaled = static_cast<float>((x[c] - mean) * scale) * rule.weight[c];
    out[c] = rule.bias ? scaled + rule.bias[c] : scaled;
  }
}

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kIdentity:
      return x;
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kReluSquared:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case Activation::kSwigluOai:
      return x / (1.0 + std::exp(-static_cast<double>(kSwigluOaiAlpha) * x));
  }
  return x;
}

// A gate and its up, both held to the limit.
double swiglu_oai(double gate, double up, double limit) {
  return activated(Activation::kSwigluOai, std::min(gate, limit)) * (std::clamp(up, -limit, limit) + 1.0);
}

template <class Body>
void each_row(std::span<const SequenceView> sequences, const Body& body) {
  for (const SequenceView& sequence : sequences) {
    for (int i = 0; i < sequence.rows; ++i) body(sequence.first_row + i);
  }
}

class RefBackend final : public Backend {
 public:
  explicit RefBackend(ActivationPrecision activations) : activations_(activations) {}

  std::string description() const override { return "ref, plain loops"; }
  std::string kernel_version() const override { return fmt::format("ref-3-{}", name_of(activations_)); }

  Buffer allocate(size_t bytes) override { return allocate_host(bytes); }
  void upload(std::byte* to, std::span<const std::byte> from) override { std::ranges::copy(from, to); }
  void download(std::span<std::byte> to, const std::byte* from) override { std::copy_n(from, to.size(), to.data()); }
  void run(const Op& op) override {
    std::visit([&](const auto& one) { compute(one); }, op);
  }

  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked) override {
    int outputs = 0;
    for (const HostWeight& weight : stacked) outputs += weight.rows;
    const int inputs = stacked.front().cols;
    auto out = std::make_unique<RefWeight>(outputs, inputs);
    out->values.resize(static_cast<size_t>(outputs) * static_cast<size_t>(inputs));
    // Rows are rounded to bf16 beside codes.
    out->dtype = stacked.front().form == WeightQuantization::kAsStored ? stacked.front().dtype : DType::kBF16;
    float* to = out->values.data();
    for (const HostWeight& weight : stacked) {
      CHECK(weight.cols == inputs && weight.form == stacked.front().form);
      for (int r = 0; r < weight.rows; ++r, to += inputs) read_kept_row(weight, r, to);
    }
    return out;
  }

  SampleTicket sample(Matrix logits, std::span<const SampleRule> rules) override {
    return samples_.sample(logits, rules);
  }
  SampleTicket last_sample() const override { return samples_.last(); }
  void take_sampled(SampleTicket ticket, std::span<TokenId> tokens) override { samples_.take(ticket, tokens); }

 private:
  template <FusedOp T>
  void compute(const T& op) {
    lower(op, *this);
  }

  static void compute(const CopyOp& op) { std::memmove(op.to, op.from, op.bytes); }

  void compute(const EmbedOp& op) {
    for (size_t i = 0; i < op.tokens.size(); ++i) {
      std::copy_n(mine(*op.table).row(samples_.known(op.tokens[i])), op.table->inputs(),
                  op.out.row(static_cast<int>(i)));
    }
  }

  static void compute(const NormOp& op) {
    const int dim = op.width();
    for (int r = 0; r < op.x.rows; ++r) {
      for (int part = 0; part < op.heads; ++part) {
        normalize(op.rule_of(part), op.x.row(r) + part * dim, dim, op.out.row(r) + part * dim);
      }
    }
  }

  void compute(const MatmulOp& op) const {
    const RefWeight& weight = mine(*op.weight);
    for (int r = 0; r < op.x.rows; ++r) {
      const std::vector<float> row = as_multiplied(weight.dtype, {op.x.row(r), static_cast<size_t>(op.x.cols)});
      for (int o = 0; o < weight.outputs(); ++o) {
        const float* w = weight.row(o);
        double sum = op.bias ? op.bias[o] : 0.0;
        for (int i = 0; i < weight.inputs(); ++i) sum += static_cast<double>(w[i]) * row[static_cast<size_t>(i)];
        op.out.row(r)[o] = static_cast<float>(sum);
      }
    }
  }

  static void compute(const RopeOp& op) {
    const RopeTable& table = op.table;
    for (int r = 0; r < op.x.rows; ++r) {
      const float* cos = table.cos + table.first(r);
      const float* sin = table.sin + table.first(r);
      for (int h = 0; h < op.heads; ++h) {
        float* first = op.x.row(r) + static_cast<std::ptrdiff_t>(h) * (op.x.cols / op.heads);
        float* second = first + table.pairs;
        for (int i = 0; i < table.pairs; ++i) {
          const float a = first[i];
          const float b = second[i];
          first[i] = a * cos[i] - b * sin[i];
          second[i] = b * cos[i] + a * sin[i];
        }
      }
    }
  }

  static void compute(const ProjectOp& op) {
    const PerHeadLinear& by = op.by;
    each_row(op.sequences, [&](int row) {
      for (int h = 0; h < op.heads; ++h) {
        const float* from = op.x.row(row) + static_cast<std::ptrdiff_t>(h) * by.inputs;
        const float* matrix = by.at + h / (op.heads / by.heads) * by.head_stride;
        for (int o = 0; o < by.outputs; ++o) {
          double sum = 0;
          for (int i = 0; i < by.inputs; ++i) {
            sum += static_cast<double>(from[i]) * matrix[static_cast<std::ptrdiff_t>(i) * by.stride + o];
          }
          op.out.row(row)[static_cast<std::ptrdiff_t>(h) * by.outputs + o] = static_cast<float>(sum);
        }
      }
    });
  }

  static void compute(const KvWriteOp& op) {
    const KvLayout& layout = op.view.layout;
    for (const SequenceView& sequence : op.sequences) {
      for (int i = 0; i < sequence.rows; ++i) {
        const Position position = sequence.start + i;
        const BlockId block = sequence.block_of(position, layout.block_tokens);
        const int row = sequence.first_row + i;
        for (int h = 0; h < layout.shape.heads; ++h) {
          const RowPlace place{block, h, static_cast<int>(position % layout.block_tokens)};
          encode_k(op.view, place, op.k.row(row) + static_cast<std::ptrdiff_t>(h) * layout.shape.k_dim);
          if (!layout.shape.has_v()) continue;
          encode_v(op.view, place, op.v.row(row) + static_cast<std::ptrdiff_t>(h) * layout.shape.v_dim);
        }
      }
    }
  }

  static void compute(const MergeAttentionOp& op) {
    each_row(op.sequences, [&](int row) { merge_part_rows(op.into, op.from, row); });
  }

  static void compute(const AttentionOp& op) { ref_attention(op); }

  static void compute(const WatchAttentionOp& op) { ref_watch(op); }

  static void compute(const KvMoveOp& op) {
    for (const RowMove& move : op.moves) move_row(op.view, op.blocks, move);
  }

  static void compute(const SwigluOp& op) {
    for (int r = 0; r < op.out.rows; ++r) {
      for (int c = 0; c < op.out.cols; ++c) {
        const double g = op.gate.row(r)[c];
        op.out.row(r)[c] = static_cast<float>(g / (1.0 + std::exp(-g)) * op.up.row(r)[c]);
      }
    }
  }

  static void compute(const ActivationOp& op) {
    for (int r = 0; r < op.out.rows; ++r) {
      for (int c = 0; c < op.out.cols; ++c) {
        if (op.activation == Activation::kSwigluOai) {
          op.out.row(r)[c] = static_cast<float>(swiglu_oai(op.x.row(r)[c], op.up.row(r)[c], op.limit));
          continue;
        }
        const double bent = activated(op.activation, op.x.row(r)[c]);
        op.out.row(r)[c] = static_cast<float>(op.up.data == nullptr ? bent : bent * op.up.row(r)[c]);
      }
    }
  }

  static void compute(const ScaleOp& op) {
    for (int r = 0; r < op.x.rows; ++r) {
      for (int c = 0; c < op.x.cols; ++c) {
        float& x = op.x.row(r)[c];
        x *= op.factor;
        if (op.softcap > 0) x = static_cast<float>(op.softcap * std::tanh(static_cast<double>(x) / op.softcap));
        if (op.limit > 0) x = std::clamp(x, -op.limit, op.limit);
      }
    }
  }

  // One row and one expert after the other, sums in double.
  void compute(const ExpertsOp& op) const {
    std::vector<RoutedExpert> chosen(static_cast<size_t>(op.rule.used));
    const bool weighs_inputs = op.rule.weighs == RouterRule::Weighs::kInputs;
    for (int r = 0; r < op.x.rows; ++r) {
      route({op.logits.row(r), static_cast<size_t>(op.logits.cols)}, op.rule, chosen);
      std::vector<double> sum(static_cast<size_t>(op.out.cols), 0.0);
      for (const RoutedExpert& one : chosen) {
        std::vector<float> x(op.x.row(r), op.x.row(r) + op.x.cols);
        if (weighs_inputs) std::ranges::transform(x, x.begin(), [&](float value) { return value * one.weight; });
        const std::vector<float> y = through(op, one.expert, x);
        const double weight = weighs_inputs ? 1.0 : one.weight;
        for (size_t c = 0; c < sum.size(); ++c) sum[c] += weight * y[c];
      }
      for (size_t c = 0; c < sum.size(); ++c) op.out.row(r)[c] = static_cast<float>(sum[c]);
    }
  }

  std::vector<float> through(const ExpertsOp& op, int number, std::vector<float>& row) const {
    const ExpertWeights& expert = op.experts[static_cast<size_t>(number)];
    const Matrix x{row.data(), 1, static_cast<int>(row.size())};
    const int width = expert.width();
    std::vector<float> gate_up(static_cast<size_t>(expert.projected_width()));
    const Matrix both{gate_up.data(), 1, expert.projected_width()};
    const Matrix gate = both.columns(0, width);
    const Matrix up = expert.plain() ? Matrix{} : both.columns(width, width);
    const float* bias = op.gate_up_bias_of(number);
    if (expert.plain()) {
      compute(MatmulOp{expert.up, x, bias, gate});
    } else if (expert.up == nullptr) {
      compute(MatmulOp{expert.gate, x, bias, both});
    } else {
      compute(MatmulOp{expert.gate, x, bias, gate});
      compute(MatmulOp{expert.up, x, bias == nullptr ? nullptr : bias + width, up});
    }
    compute(ActivationOp{op.activation, gate, up, gate, op.limit});
    std::vector<float> out(static_cast<size_t>(expert.down->outputs()));
    compute(MatmulOp{expert.down, gate, op.down_bias_of(number), {out.data(), 1, expert.down->outputs()}});
    return out;
  }

  static void compute(const SigmoidGateOp& op) {
    for (int r = 0; r < op.x.rows; ++r) {
      for (int c = 0; c < op.x.cols; ++c) {
        const double gate = op.gate.row(r)[op.gate.cols == 1 ? 0 : c];
        op.x.row(r)[c] = static_cast<float>(op.x.row(r)[c] / (1.0 + std::exp(-gate)));
      }
    }
  }

  static void compute(const QueryScaleOp& op) {
    for (int r = 0; r < op.x.rows; ++r) {
      for (int c = 0; c < op.x.cols; ++c) op.x.row(r)[c] *= op.table.scale_of(r);
    }
  }

  static void compute(const AddOp& op) {
    for (int r = 0; r < op.x.rows; ++r) {
      for (int c = 0; c < op.x.cols; ++c) op.x.row(r)[c] += op.y.row(r)[c];
    }
  }

  static void compute(const CausalConvOp& op) { ref_conv(op); }
  static void compute(const DecayOp& op) { ref_decay(op); }
  static void compute(const RecurrenceOp& op) { ref_recurrence(op); }
  static void compute(const StateRoundOp& op) { ref_round_states(op); }
  static void compute(const StateEncodeOp& op) {
    encode_state(op.codes.format, op.codes.shape, op.codes.layers, op.from, op.to);
  }
  static void compute(const StateDecodeOp& op) {
    decode_state(op.codes.format, op.codes.shape, op.codes.layers, op.from, op.to);
  }

  // A row as it meets weights of this type.
  std::vector<float> as_multiplied(DType weights, std::span<const float> row) const {
    std::vector<float> out(row.begin(), row.end());
    if (activations_ == ActivationPrecision::kF32) return out;
    if (has_integers(weights)) {
      const bool large = block_elements(weights) == kInt8Group;
      const size_t size = large ? kInt8Group : kInt8Block;
      for (size_t at = 0; at < out.size(); at += size) {
        (large ? round_group : round_block)({out.data() + at, size});
      }
    } else if (weights == DType::kBF16) {
      for (float& value : out) value = CodecBF16::decode(CodecBF16::encode(value));
    }
    return out;
  }

  ActivationPrecision activations_;
  RefSamples samples_;
};

}  // namespace

std::unique_ptr<Backend> make_ref_backend(ActivationPrecision activations) {
  return std::make_unique<RefBackend>(activations);
}

}  // namespace kvasir
