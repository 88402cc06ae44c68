// What ops read and write, as values: weights, rope tables, norms, how scores become weights, how rows are routed to
// experts. Two values are equal if they say the same of the same memory. backend/ops.h has the ops.
#pragma once

#include <cstdint>
#include <span>

#include "backend/sequence_views.h"
#include "backend/tensor.h"
#include "base/ids.h"
#include "layout/host_device.h"
#include "layout/kv_view.h"
#include "layout/softmax_state.h"

namespace kvasir {

// A matrix of weights in the form its backend reads fastest: [outputs][inputs], y = W x.
class Weight {
 public:
  Weight(int outputs, int inputs) : outputs_(outputs), inputs_(inputs) {}
  virtual ~Weight() = default;
  int outputs() const { return outputs_; }
  int inputs() const { return inputs_; }
  virtual std::span<const std::byte> memory() const = 0;  // where it lies: to measure how fast it can be read at best

 private:
  int outputs_;
  int inputs_;
};

// cos and sin of angles: [rope rows][pairs] each. Element i of a head pairs with element i + pairs.
struct RopeTable {
  const float* cos = nullptr;
  const float* sin = nullptr;
  int pairs = 0;                            // half of what is rotated of a head: its first 2 * pairs elements
  const std::int32_t* rope_rows = nullptr;  // [rows of the batch], in the backend's memory; null: row r has r
  const float* query_scale = nullptr;       // [rope rows], or none

  // Of a row's cosines, and of its sines.
  KVASIR_HD std::int64_t first(int row) const {
    return static_cast<std::int64_t>(rope_rows != nullptr ? rope_rows[row] : row) * pairs;
  }
  KVASIR_HD float scale_of(int row) const { return query_scale[rope_rows != nullptr ? rope_rows[row] : row]; }
  friend bool operator==(const RopeTable&, const RopeTable&) = default;
};

struct NormRule {
  enum class Kind : std::uint8_t { kRms, kLayer };  // kLayer: the mean is subtracted first

  const float* weight = nullptr;
  float eps = 0;
  const float* bias = nullptr;  // may be null
  Kind kind = Kind::kRms;

  friend bool operator==(const NormRule&, const NormRule&) = default;
};

// What is added to a score by how far the key lies behind the query (before it: below 0), a few numbers a head.
struct PositionBias {
  const float* slopes = nullptr;  // [heads]: times key - query, as ALiBi has it
  const float* table = nullptr;   // [heads][width()]: of key - query, held to -before … after. T5's buckets lie so
  int before = 0;
  int after = 0;

  KVASIR_HD int width() const { return before + 1 + after; }
  KVASIR_HD bool none() const { return slopes == nullptr && table == nullptr; }
  KVASIR_HD std::int64_t place(std::int64_t distance) const {  // of a head's part of the table
    return (distance < -before ? -before : distance > after ? after : distance) + before;
  }
  friend bool operator==(const PositionBias&, const PositionBias&) = default;
};

// How a query's scores over the keys become weights: softmax of softcap(scale q k) + bias over the keys that it sees,
// and a logit more that stands for no key.
struct ScoreRule {
  enum class Mask : std::uint8_t {
    kCausal,  // a row sees keys up to its own position, as far as the view's retention goes
    kAll,     // every row sees all SequenceView::keys. REQUIRES: the view's retention is full
  };

  float scale = 1.0F;    // of a query's product with a key
  float softcap = 0.0F;  // c: a score s becomes c tanh(s / c); 0: it stays
  const float* sink_logits =
      nullptr;  // [heads]: in the softmax's sum, without a value. Of keys in parts one part has it
  PositionBias bias = {};
  Mask mask = Mask::kCausal;

  // Whether scores are more than products times a scale.
  KVASIR_HD bool adjusts_scores() const { return softcap != 0.0F || !bias.none(); }
  // The same for the query heads from `first` on.
  ScoreRule from_head(int first) const {
    ScoreRule out = *this;
    if (sink_logits != nullptr) out.sink_logits += first;
    if (bias.slopes != nullptr) out.bias.slopes += first;
    if (bias.table != nullptr) out.bias.table += static_cast<std::ptrdiff_t>(first) * bias.width();
    return out;
  }
  friend bool operator==(const ScoreRule&, const ScoreRule&) = default;
};

// Inputs of one attention call. Row r of q holds its heads one after the other: [heads][k_dim].
// Query head h reads KV head h / (heads / view.layout.shape.heads).
struct AttentionBatch {
  Matrix q;
  KvView view;
  SequenceViews sequences;
  int heads = 0;
  ScoreRule rule;
  SoftmaxState* states = nullptr;  // [rows][heads], where wanted: what each row's output is a mean of

  // The last position that a row of one of the sequences may see; -1: none.
  Position last_key(const SequenceView& sequence, int row) const {
    return rule.mask == ScoreRule::Mask::kAll ? sequence.keys - 1 : sequence.position_of(row);
  }
  friend bool operator==(const AttentionBatch&, const AttentionBatch&) = default;
};

// The outputs of attention over some keys, and what they are means of: [rows][heads * v_dim] and [rows][heads].
struct AttentionPart {
  Matrix out;
  SoftmaxState* states = nullptr;
  int heads = 0;

  friend bool operator==(const AttentionPart&, const AttentionPart&) = default;
};

// Queries whose attention is watched, for whoever evicts rows: what each cached row gets of it is noted.
struct AttentionWatch {
  enum class Note : std::uint8_t {
    kShares,     // the row's softmax weights, of all query heads of its KV head, are added up, query after query
    kLastQuery,  // the position of the last query that gave the row more than an equal share, or that it is of
  };
  int sequence = 0;       // of the batch's
  int first = 0;          // row of the sequence, as all behind it
  Position position = 0;  // of the token in row `first`
  Note note = Note::kShares;
  float* scores = nullptr;  // [KV heads][stride], a number a cached row; those of new rows are 0 before
  std::int64_t stride = 0;

  friend bool operator==(const AttentionWatch&, const AttentionWatch&) = default;
};

inline constexpr int kHeadMatrixLanes = 16;

// A matrix for each KV head, x becomes x M: of [inputs][stride] numbers the first `outputs` of each row.
struct PerHeadLinear {
  const float* at = nullptr;
  int heads = 0;  // KV heads; query head h has the matrix of h / (query heads / heads)
  int inputs = 0;
  int outputs = 0;
  int stride = 0;                // a multiple of kHeadMatrixLanes, zeros behind the last column
  std::int64_t head_stride = 0;  // between the matrices of two heads

  friend bool operator==(const PerHeadLinear&, const PerHeadLinear&) = default;
};

// x += y; normed = norm(x)
struct NormedRows {
  Matrix x;
  Matrix y;
  NormRule norm;
  Matrix normed;

  friend bool operator==(const NormedRows&, const NormedRows&) = default;
};

struct GatedMlp {
  const Weight* gate_up = nullptr;      // [2 ffn][inputs]: gates, then as many ups
  const float* gate_up_bias = nullptr;  // or none
  const Weight* down = nullptr;         // [outputs][ffn]
  const float* down_bias = nullptr;     // or none

  friend bool operator==(const GatedMlp&, const GatedMlp&) = default;
};

// Which experts a row goes to, and how much each of them counts: from the router's logits, in float32 and in the
// order of the experts, so that a row's experts depend on that row alone.
struct RouterRule {
  enum class Score : std::uint8_t {
    kSoftmax,          // of all experts' logits
    kSigmoid,          // of each logit by itself
    kSoftmaxOfChosen,  // of the logits of those that were chosen
  };
  enum class GroupScore : std::uint8_t {
    kTopTwo,  // the sum of a group's two best
    kBest,
  };
  enum class Weighs : std::uint8_t {
    kOutputs,  // a row's sum is of weighted outputs
    kInputs,   // an expert reads the row times its weight, and outputs are added as they are
  };

  Score score = Score::kSoftmax;
  int used = 0;                        // experts a row, those with the highest scores; the lower number wins a tie
  bool normalized = false;             // their weights are divided by their sum
  float scale = 1.0F;                  // of their weights
  const float* choice_bias = nullptr;  // [experts], added to scores where they choose, not where they weigh; or none
  int groups = 1;                      // of experts, equal parts of them: those of the best `used_groups` are chosen
  int used_groups = 1;
  GroupScore group_score = GroupScore::kTopTwo;
  const float* expert_scale = nullptr;  // [experts], of their weights; or none
  Weighs weighs = Weighs::kOutputs;

  friend bool operator==(const RouterRule&, const RouterRule&) = default;
};

// down(activation(gate(x)) * up(x)), or down(activation(up(x))) of plain ones, which a layer has all or none of.
// Gates and ups are one matrix, unless a file has them in different types.
struct ExpertWeights {
  // [2 width][hidden]: gates, then as many ups; or [width][hidden] where `up` is there; or none, of a plain one
  const Weight* gate = nullptr;
  const Weight* up = nullptr;    // [width][hidden], or none
  const Weight* down = nullptr;  // [hidden][width]

  int width() const { return down->inputs(); }
  bool plain() const { return gate == nullptr; }
  int projected_width() const { return plain() ? width() : 2 * width(); }
  friend bool operator==(const ExpertWeights&, const ExpertWeights&) = default;
};

// A batch's queries, keys and values before RoPE.
struct QkvRows {
  Matrix q;  // [rows][heads * k_dim]
  Matrix k;  // [rows][kv_heads * k_dim]
  Matrix v;  // [rows][kv_heads * v_dim]
  int heads = 0;
  int kv_heads = 0;
  RopeTable table;

  friend bool operator==(const QkvRows&, const QkvRows&) = default;
};

}  // namespace kvasir
