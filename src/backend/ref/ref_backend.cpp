#include "backend/ref/ref_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/merge_parts.h"
#include "backend/quant/int8_rows.h"
#include "backend/ref/ref_draw.h"
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

// A query as it meets the keys: in the space of their format, rounded if they are packed.
std::vector<float> query_for(KvFormat keys, const float* q, int dim) {
  std::vector<float> out(q, q + dim);
  turn(keys, out.data(), dim);
  if (is_packed(keys)) {
    const float scale = round_query(out.data(), dim);
    for (float& value : out) value *= scale;
  }
  return out;
}

// One query head at one position over all keys it may see, softmax in two passes.
void attend(const AttentionBatch& batch, const SequenceView& sequence, int row, int head, float* out) {
  const KvView& view = batch.view;
  const KvLayout& layout = view.layout;
  const int kv_head = head / (batch.heads / layout.shape.heads);
  const int k_dim = layout.shape.k_dim;
  const int v_dim = layout.shape.v_dim;
  const std::vector<float> q = query_for(
      layout.k_format, batch.q.row(sequence.first_row + row) + static_cast<std::ptrdiff_t>(head) * k_dim, k_dim);
  const Position query = sequence.start + row;
  const auto place_of = [&](Position key) -> RowPlace {
    return {sequence.block_of(key, layout.block_tokens), kv_head, static_cast<int>(key % layout.block_tokens)};
  };

  std::vector<Position> keys;
  std::vector<double> scores;
  std::vector<float> held(static_cast<size_t>(std::max(k_dim, v_dim)));
  double top = -std::numeric_limits<double>::infinity();
  for (Position key = 0; key <= query; ++key) {
    if (!view.reads(query, key)) continue;
    decode_k(view, place_of(key), held.data());
    double dot = 0;
    for (size_t d = 0; d < q.size(); ++d) dot += static_cast<double>(q[d]) * held[d];
    keys.push_back(key);
    scores.push_back(dot * batch.scale);
    top = std::max(top, scores.back());
  }

  double sum = 0;
  std::vector<double> mixed(static_cast<size_t>(v_dim), 0.0);
  for (size_t i = 0; i < keys.size(); ++i) {
    const double weight = std::exp(scores[i] - top);
    sum += weight;
    decode_v(view, place_of(keys[i]), held.data());
    for (size_t d = 0; d < mixed.size(); ++d) mixed[d] += weight * held[d];
  }
  for (int d = 0; d < v_dim; ++d) {
    out[d] = keys.empty() ? 0.0F : static_cast<float>(mixed[static_cast<size_t>(d)] / sum);
  }
  turn(layout.v_format, out, v_dim);
  if (batch.states == nullptr) return;
  SoftmaxState state;
  if (!keys.empty()) state = {static_cast<float>(top), static_cast<float>(sum)};
  batch.states[static_cast<std::ptrdiff_t>(sequence.first_row + row) * batch.heads + head] = state;
}

// What one query head gives to each row it sees, softmax in two passes.
std::vector<double> shares_of(const AttentionBatch& batch, const SequenceView& sequence, int row, int head) {
  const KvView& view = batch.view;
  const KvLayout& layout = view.layout;
  const int kv_head = head / (batch.heads / layout.shape.heads);
  const int k_dim = layout.shape.k_dim;
  const std::vector<float> q = query_for(
      layout.k_format, batch.q.row(sequence.first_row + row) + static_cast<std::ptrdiff_t>(head) * k_dim, k_dim);
  const Position query = sequence.start + row;
  std::vector<double> out(static_cast<size_t>(query) + 1, -std::numeric_limits<double>::infinity());
  std::vector<float> held(static_cast<size_t>(k_dim));
  for (Position key = 0; key <= query; ++key) {
    if (!view.reads(query, key)) continue;
    decode_k(view,
             {sequence.block_of(key, layout.block_tokens), kv_head, static_cast<int>(key % layout.block_tokens)},
             held.data());
    double dot = 0;
    for (size_t d = 0; d < q.size(); ++d) dot += static_cast<double>(q[d]) * held[d];
    out[static_cast<size_t>(key)] = dot * batch.scale;
  }
  const double top = *std::ranges::max_element(out);
  double sum = 0;
  for (double& value : out) sum += value = std::exp(value - top);
  for (double& value : out) value /= sum;
  return out;
}

class RefBackend final : public Backend {
 public:
  explicit RefBackend(Activations activations) : activations_(activations) {}

  std::string description() const override { return "ref, plain loops"; }
  std::string kernel_version() const override { return fmt::format("ref-3-{}", name_of(activations_)); }

  Buffer allocate(size_t bytes) override { return allocate_host(bytes); }
  void upload(std::byte* to, std::span<const std::byte> from) override { std::ranges::copy(from, to); }
  void download(std::span<std::byte> to, const std::byte* from) override { std::copy_n(from, to.size(), to.data()); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { std::memmove(to, from, bytes); }

  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked) override {
    int outputs = 0;
    for (const HostWeight& weight : stacked) outputs += weight.rows;
    const int inputs = stacked.front().cols;
    auto out = std::make_unique<RefWeight>(outputs, inputs);
    out->values.resize(static_cast<size_t>(outputs) * static_cast<size_t>(inputs));
    // Rows are rounded to bf16 beside codes.
    out->dtype = stacked.front().form == WeightForm::kAsStored ? stacked.front().dtype : DType::kBF16;
    float* to = out->values.data();
    for (const HostWeight& weight : stacked) {
      CHECK(weight.cols == inputs && weight.form == stacked.front().form);
      for (int r = 0; r < weight.rows; ++r, to += inputs) read_kept_row(weight, r, to);
    }
    return out;
  }

  void embed(const Weight& table, std::span<const TokenId> tokens, Matrix out) override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::copy_n(mine(table).row(draws_.known(tokens[i])), table.inputs(), out.row(static_cast<int>(i)));
    }
  }

  void rms_norm(Matrix x, const float* weight, float eps, Matrix out) override {
    for (int r = 0; r < x.rows; ++r) {
      double squares = 0;
      for (int c = 0; c < x.cols; ++c) squares += static_cast<double>(x.row(r)[c]) * x.row(r)[c];
      const double scale = 1.0 / std::sqrt(squares / x.cols + static_cast<double>(eps));
      for (int c = 0; c < x.cols; ++c) out.row(r)[c] = static_cast<float>(x.row(r)[c] * scale) * weight[c];
    }
  }

  void layer_norm(Matrix x, const float* weight, const float* bias, float eps, Matrix out) override {
    for (int r = 0; r < x.rows; ++r) {
      double sum = 0;
      for (int c = 0; c < x.cols; ++c) sum += x.row(r)[c];
      const double mean = sum / x.cols;
      double squares = 0;
      for (int c = 0; c < x.cols; ++c) squares += (x.row(r)[c] - mean) * (x.row(r)[c] - mean);
      const double scale = 1.0 / std::sqrt(squares / x.cols + static_cast<double>(eps));
      for (int c = 0; c < x.cols; ++c) {
        out.row(r)[c] = static_cast<float>((x.row(r)[c] - mean) * scale) * weight[c] + (bias ? bias[c] : 0.0F);
      }
    }
  }

  void matmul(const Weight& weight, Matrix x, const float* bias, Matrix out) override {
    for (int r = 0; r < x.rows; ++r) {
      const std::vector<float> row = as_multiplied(mine(weight).dtype, {x.row(r), static_cast<size_t>(x.cols)});
      for (int o = 0; o < weight.outputs(); ++o) {
        const float* w = mine(weight).row(o);
        double sum = bias ? bias[o] : 0.0;
        for (int i = 0; i < weight.inputs(); ++i) sum += static_cast<double>(w[i]) * row[static_cast<size_t>(i)];
        out.row(r)[o] = static_cast<float>(sum);
      }
    }
  }

  void rope(Matrix x, int heads, const RopeTable& table) override {
    for (int r = 0; r < x.rows; ++r) {
      const float* cos = table.cos + table.first(r);
      const float* sin = table.sin + table.first(r);
      for (int h = 0; h < heads; ++h) {
        float* first = x.row(r) + static_cast<std::ptrdiff_t>(h) * (x.cols / heads);
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

  void project(Matrix x, int heads, const HeadMatrices& by, std::span<const SequenceView> sequences,
               Matrix out) override {
    for (const SequenceView& sequence : sequences) {
      for (int row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
        for (int h = 0; h < heads; ++h) {
          const float* from = x.row(row) + static_cast<std::ptrdiff_t>(h) * by.inputs;
          const float* matrix = by.at + h / (heads / by.heads) * by.head_stride;
          for (int o = 0; o < by.outputs; ++o) {
            double sum = 0;
            for (int i = 0; i < by.inputs; ++i) {
              sum += static_cast<double>(from[i]) * matrix[static_cast<std::ptrdiff_t>(i) * by.stride + o];
            }
            out.row(row)[static_cast<std::ptrdiff_t>(h) * by.outputs + o] = static_cast<float>(sum);
          }
        }
      }
    }
  }

  void kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) override {
    const KvLayout& layout = view.layout;
    for (const SequenceView& sequence : sequences) {
      for (int i = 0; i < sequence.rows; ++i) {
        const Position position = sequence.start + i;
        const BlockId block = sequence.block_of(position, layout.block_tokens);
        const auto slot = static_cast<int>(position % layout.block_tokens);
        for (int h = 0; h < layout.shape.heads; ++h) {
          const RowPlace place{block, h, slot};
          encode_k(view, place, k.row(sequence.first_row + i) + static_cast<std::ptrdiff_t>(h) * layout.shape.k_dim);
          encode_v(view, place, v.row(sequence.first_row + i) + static_cast<std::ptrdiff_t>(h) * layout.shape.v_dim);
        }
      }
    }
  }

  void merge_attention(AttentionPart into, AttentionPart from, std::span<const SequenceView> sequences) override {
    for (const SequenceView& sequence : sequences) {
      for (int row = 0; row < sequence.rows; ++row) merge_part_rows(into, from, sequence.first_row + row);
    }
  }

  void attention(const AttentionBatch& batch, Matrix out) override {
    for (const SequenceView& sequence : batch.sequences) {
      for (int row = 0; row < sequence.rows; ++row) {
        for (int head = 0; head < batch.heads; ++head) {
          const std::ptrdiff_t column = static_cast<std::ptrdiff_t>(head) * batch.view.layout.shape.v_dim;
          attend(batch, sequence, row, head, out.row(sequence.first_row + row) + column);
        }
      }
    }
  }

  void watch_attention(const AttentionBatch& batch, const AttentionWatch& watch) override {
    const SequenceView& sequence = batch.sequences[static_cast<size_t>(watch.sequence)];
    const int heads_per_kv = batch.heads / batch.view.layout.shape.heads;
    for (int row = watch.first; row < sequence.rows; ++row) {
      const auto position = static_cast<float>(watch.position + row - watch.first);
      for (int head = 0; head < batch.heads; ++head) {
        float* scores = watch.scores + watch.stride * (head / heads_per_kv);
        const std::vector<double> shares = shares_of(batch, sequence, row, head);
        for (size_t key = 0; key < shares.size(); ++key) {
          if (watch.note == AttentionWatch::Note::kShares) {
            scores[key] += static_cast<float>(shares[key]);
          } else if (key + 1 == shares.size() || shares[key] * static_cast<double>(shares.size()) > 1) {
            scores[key] = position;
          }
        }
      }
    }
  }

  void kv_move(const KvView& view, const BlockId* blocks, std::span<const RowMove> moves) override {
    for (const RowMove& move : moves) move_row(view, blocks, move);
  }

  void swiglu(Matrix gate, Matrix up, Matrix out) override {
    for (int r = 0; r < out.rows; ++r) {
      for (int c = 0; c < out.cols; ++c) {
        const double g = gate.row(r)[c];
        out.row(r)[c] = static_cast<float>(g / (1.0 + std::exp(-g)) * up.row(r)[c]);
      }
    }
  }

  void add(Matrix x, Matrix y) override {
    for (int r = 0; r < x.rows; ++r) {
      for (int c = 0; c < x.cols; ++c) x.row(r)[c] += y.row(r)[c];
    }
  }

  DrawTicket draw(Matrix logits, std::span<const DrawRule> rules) override { return draws_.draw(logits, rules); }
  DrawTicket last_draw() const override { return draws_.last(); }
  void take_drawn(DrawTicket ticket, std::span<TokenId> tokens) override { draws_.take(ticket, tokens); }

 private:
  // A row as it meets weights of this type.
  std::vector<float> as_multiplied(DType weights, std::span<const float> row) const {
    std::vector<float> out(row.begin(), row.end());
    if (activations_ == Activations::kF32) return out;
    if (is_quantized(weights)) {
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

  Activations activations_;
  RefDraws draws_;
};

}  // namespace

std::unique_ptr<Backend> make_ref_backend(Activations activations) {
  return std::make_unique<RefBackend>(activations);
}

}  // namespace kvasir
