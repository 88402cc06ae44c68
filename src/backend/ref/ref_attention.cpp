#include "backend/ref/ref_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "layout/codec.h"
#include "layout/row_codec.h"

namespace kvasir {
namespace {

// A query head of a row, and what it sees.
class Query {
 public:
  Query(const AttentionBatch& batch, const SequenceView& sequence, int row, int head)
      : batch_(batch),
        sequence_(sequence),
        head_(head),
        kv_head_(head / (batch.heads / layout().shape.heads)),
        position_(sequence.position_of(row)),
        last_key_(batch.last_key(sequence, row)),
        path_(sequence.path_of(row)),
        numbers_(layout().shape.k_dim) {
    const float* from = batch.q.row(sequence.first_row + row) + static_cast<std::ptrdiff_t>(head) * numbers_;
    q_.assign(from, from + numbers_);
    meet(layout().k_format);
  }

  Position last_key() const { return last_key_; }
  bool sees(Position key) const {
    return batch_.rule.mask == ScoreRule::Mask::kAll || batch_.view.reads(position_, key);
  }
  RowPlace place_of(Position key) const {
    const Position slot = path_.slot_of(key);
    return {sequence_.block_of(slot, layout().block_tokens), kv_head_,
            static_cast<int>(slot % layout().block_tokens)};
  }

  // By key; -inf where it sees none.
  std::vector<double> scores() const {
    std::vector<double> out(static_cast<size_t>(last_key_ + 1), -std::numeric_limits<double>::infinity());
    std::vector<float> held(q_.size());
    for (Position key = 0; key <= last_key_; ++key) {
      if (!sees(key)) continue;
      decode_k(batch_.view, place_of(key), held.data());
      double dot = 0;
      for (size_t d = 0; d < q_.size(); ++d) dot += static_cast<double>(q_[d]) * held[d];
      out[static_cast<size_t>(key)] = adjusted(dot * batch_.rule.scale, key - position_);
    }
    return out;
  }

 private:
  const KvLayout& layout() const { return batch_.view.layout; }

  // As it meets the keys: in the space of their format, rounded if they are packed.
  void meet(KvFormat keys) {
    turn(keys, q_.data(), numbers_);
    if (!is_packed(keys)) return;
    const float scale = round_query(q_.data(), numbers_);
    for (float& value : q_) value *= scale;
  }

  double adjusted(double score, Position distance) const {
    const ScoreRule& rule = batch_.rule;
    const PositionBias& bias = rule.bias;
    if (rule.softcap != 0.0F) score = rule.softcap * std::tanh(score / rule.softcap);
    if (bias.slopes != nullptr) score += static_cast<double>(bias.slopes[head_]) * static_cast<double>(distance);
    if (bias.table != nullptr) {
      score += bias.table[static_cast<std::int64_t>(head_) * bias.width() + bias.place(distance)];
    }
    return score;
  }

  const AttentionBatch& batch_;
  const SequenceView& sequence_;
  int head_;
  int kv_head_;
  Position position_;
  Position last_key_;
  TreePath path_;
  int numbers_;
  std::vector<float> q_;
};

// Scores become weights, not yet divided by their sum, which the state has.
SoftmaxState weigh(const ScoreRule& rule, int head, std::vector<double>& scores, double& sum) {
  double top = -std::numeric_limits<double>::infinity();
  for (const double score : scores) top = std::max(top, score);
  const double sink = rule.sink_logits != nullptr ? rule.sink_logits[head] : top;
  if (rule.sink_logits != nullptr) top = std::max(top, sink);
  sum = 0;
  if (top == -std::numeric_limits<double>::infinity()) return {};
  for (double& score : scores) sum += score = std::exp(score - top);
  if (rule.sink_logits != nullptr) sum += std::exp(sink - top);
  return {static_cast<float>(top), static_cast<float>(sum)};
}

// What is mixed of a cached row.
void read_value(const KvView& view, const RowPlace& place, std::vector<float>& k_row, std::vector<float>& to) {
  const KvShape& shape = view.layout.shape;
  if (shape.has_v()) return decode_v(view, place, to.data());
  decode_k(view, place, k_row.data());
  const bool whole = mixed_dim(view.layout) == shape.k_dim;
  std::copy_n(k_row.begin() + (whole ? 0 : shape.v_in_k), to.size(), to.begin());
}

void attend(const AttentionBatch& batch, const SequenceView& sequence, int row, int head, float* out) {
  const Query query(batch, sequence, row, head);
  std::vector<double> weights = query.scores();
  double sum = 0;
  const SoftmaxState state = weigh(batch.rule, head, weights, sum);
  std::vector<float> held(static_cast<size_t>(mixed_dim(batch.view.layout)));
  std::vector<float> k_row(static_cast<size_t>(batch.view.layout.shape.k_dim));
  std::vector<double> mixed(held.size(), 0.0);
  for (Position key = 0; key <= query.last_key(); ++key) {
    if (!query.sees(key)) continue;
    read_value(batch.view, query.place_of(key), k_row, held);
    for (size_t d = 0; d < mixed.size(); ++d) mixed[d] += weights[static_cast<size_t>(key)] * held[d];
  }
  for (size_t d = 0; d < held.size(); ++d) held[d] = state.empty() ? 0.0F : static_cast<float>(mixed[d] / sum);
  finish_mixed(batch.view.layout, held.data(), out);
  if (batch.states == nullptr) return;
  batch.states[static_cast<std::ptrdiff_t>(sequence.first_row + row) * batch.heads + head] = state;
}

}  // namespace

void ref_attention(const AttentionOp& op) {
  const int v_dim = op.batch.view.layout.shape.v_dim;
  for (const SequenceView& sequence : op.batch.sequences) {
    for (int row = 0; row < sequence.rows; ++row) {
      for (int head = 0; head < op.batch.heads; ++head) {
        float* out = op.out.row(sequence.first_row + row) + static_cast<std::ptrdiff_t>(head) * v_dim;
        attend(op.batch, sequence, row, head, out);
      }
    }
  }
}

void ref_watch(const WatchAttentionOp& op) {
  const AttentionBatch& batch = op.batch;
  const AttentionWatch& watch = op.watch;
  const SequenceView& sequence = batch.sequences[static_cast<size_t>(watch.sequence)];
  const int heads_per_kv = batch.heads / batch.view.layout.shape.heads;
  CHECK(sequence.ancestors == nullptr && batch.rule.mask == ScoreRule::Mask::kCausal);
  for (int row = watch.first; row < sequence.rows; ++row) {
    const auto position = static_cast<float>(watch.position + row - watch.first);
    for (int head = 0; head < batch.heads; ++head) {
      float* scores = watch.scores + watch.stride * (head / heads_per_kv);
      std::vector<double> shares = Query(batch, sequence, row, head).scores();
      double sum = 0;
      weigh(batch.rule, head, shares, sum);
      for (size_t key = 0; key < shares.size(); ++key) {
        const double share = shares[key] / sum;
        if (watch.note == AttentionWatch::Note::kShares) {
          scores[key] += static_cast<float>(share);
        } else if (key + 1 == shares.size() || share * static_cast<double>(shares.size()) > 1) {
          scores[key] = position;
        }
      }
    }
  }
}

}  // namespace kvasir
