// A cache that holds noise, read by any rule of scores: what the tests of rules, trees and shared values have in
// common.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "backend/backends.h"
#include "backend/kv_storage.h"

namespace kvasir::testing {

// A rule as a test writes it: the arrays are made of noise.
struct RuleFields {
  enum class Bias : std::uint8_t { kNone, kSlopes, kTable };
  float softcap = 0;
  bool sinks = false;
  Bias bias = Bias::kNone;
  ScoreRule::Mask mask = ScoreRule::Mask::kCausal;
};

struct RuleCase {
  int heads = 4;
  KvShape shape{2, 20, 12};
  KvFormat format = KvFormat::kF32;
  int block_tokens = 16;
  Retention retention{};
  RuleFields fields{};
};

inline std::string text_of(const RuleCase& c) {
  const RuleFields& f = c.fields;
  return std::string(format_name(c.format)) + " " + std::to_string(c.heads) + "/" + std::to_string(c.shape.heads) +
         " x " + std::to_string(c.shape.k_dim) + " v_in_k " + std::to_string(c.shape.v_in_k) + " block " +
         std::to_string(c.block_tokens) + " window " + std::to_string(c.retention.window) + "+" +
         std::to_string(c.retention.sinks) + " chunk " + std::to_string(c.retention.chunk) + " cap " +
         std::to_string(f.softcap) + (f.sinks ? " sinks" : "") + " bias " + std::to_string(static_cast<int>(f.bias)) +
         " mask " + std::to_string(static_cast<int>(f.mask));
}

// Every combination of a rule's fields.
inline std::vector<RuleFields> all_rules(const std::vector<ScoreRule::Mask>& masks) {
  std::vector<RuleFields> out;
  for (const ScoreRule::Mask mask : masks) {
    for (const float softcap : {0.0F, 1.5F}) {
      for (const bool sinks : {false, true}) {
        for (const auto bias : {RuleFields::Bias::kNone, RuleFields::Bias::kSlopes, RuleFields::Bias::kTable}) {
          out.push_back({softcap, sinks, bias, mask});
        }
      }
    }
  }
  return out;
}

class ScoreScene {
 public:
  // Blocks for `sequences` sequences of at most `longest` tokens each.
  ScoreScene(Backend& backend, const RuleCase& c, int sequences, Position longest) : backend_(backend), case_(c) {
    const KvGroup group{{0}, c.shape, c.format, c.format, c.retention};
    const std::int64_t each = blocks_for(longest, c.block_tokens);
    storage_ = std::make_unique<KvStorage>(
        backend, KvStorage::Pages{each * sequences, make_layout(group, c.block_tokens).block_bytes()},
        c.block_tokens);
    storage_->set_group(0, group);
    for (int s = 0; s < sequences; ++s) {
      tables_.emplace_back();
      for (std::int64_t b = 0; b < each; ++b)
        tables_.back().push_back(static_cast<BlockId>((b + 1) * sequences - 1 - s));
    }
    sinks_ = noise_vector(static_cast<size_t>(c.heads), 11);
    slopes_ = noise_vector(static_cast<size_t>(c.heads), 12);
    for (float& slope : slopes_) slope *= 0.05F;
    table_ = noise_vector(static_cast<size_t>(c.heads * (kBefore + 1 + kAfter)), 13);
  }

  static constexpr int kBefore = 30;
  static constexpr int kAfter = 9;

  ScoreRule rule() const {
    ScoreRule rule{1.0F / std::sqrt(static_cast<float>(case_.shape.k_dim)), case_.fields.softcap};
    rule.mask = case_.fields.mask;
    if (case_.fields.sinks) rule.sink_logits = sinks_.data();
    if (case_.fields.bias == RuleFields::Bias::kSlopes) rule.bias.slopes = slopes_.data();
    if (case_.fields.bias == RuleFields::Bias::kTable) rule.bias = {nullptr, table_.data(), kBefore, kAfter};
    return rule;
  }

  KvView view() const { return storage_->view(0, 0); }
  SequenceView sequence(int s, Position start, int rows) const {
    return {tables_[static_cast<size_t>(s)].data(), start, 0, rows};
  }

  // Rows `which` of all keys and values there are, at the positions from `start` on.
  void write(int s, Position start, const std::vector<int>& which) {
    OwnedMatrix k(static_cast<int>(which.size()), width(case_.shape.k_dim));
    OwnedMatrix v(static_cast<int>(which.size()), width(case_.shape.v_dim));
    for (size_t i = 0; i < which.size(); ++i) {
      for (int c = 0; c < k.view.cols; ++c) k.view.row(static_cast<int>(i))[c] = key(which[i], c);
      for (int c = 0; c < v.view.cols; ++c) v.view.row(static_cast<int>(i))[c] = value(which[i], c);
    }
    const std::vector<SequenceView> one{sequence(s, start, static_cast<int>(which.size()))};
    backend_.run(KvWriteOp{k.view, case_.shape.has_v() ? v.view : Matrix{}, view(), one});
  }
  void write_first(int s, Position count) {
    std::vector<int> which(static_cast<size_t>(count));
    for (size_t i = 0; i < which.size(); ++i) which[i] = static_cast<int>(i);
    write(s, 0, which);
  }

  // q's row i is query `which[i]`, of the sequence's row i.
  struct Result {
    std::vector<float> out;
    std::vector<SoftmaxState> states;
  };
  Result attend(const SequenceView& sequence, const std::vector<int>& which) {
    return attend(sequence, which, rule(), view());
  }
  Result attend(const SequenceView& sequence, const std::vector<int>& which, const ScoreRule& rule,
                const KvView& view) {
    const OwnedMatrix q = queries(which);
    OwnedMatrix out(q.view.rows, case_.heads * case_.shape.v_dim);
    std::vector<SoftmaxState> states(static_cast<size_t>(q.view.rows * case_.heads), {7, 7});
    const std::vector<SequenceView> one{sequence};
    backend_.run(AttentionOp{{q.view, view, one, case_.heads, rule, states.data()}, out.view});
    return {out.values, states};
  }

  OwnedMatrix queries(const std::vector<int>& which) const {
    OwnedMatrix q(static_cast<int>(which.size()), case_.heads * case_.shape.k_dim);
    for (size_t i = 0; i < which.size(); ++i) {
      for (int c = 0; c < q.view.cols; ++c) {
        q.view.row(static_cast<int>(i))[c] = noise(77, static_cast<std::uint64_t>(which[i] * 4096 + c));
      }
    }
    return q;
  }
  float key(int row, int column) const { return noise(55, static_cast<std::uint64_t>(row * 4096 + column)); }
  float value(int row, int column) const { return noise(66, static_cast<std::uint64_t>(row * 4096 + column)); }

  // The softmax by its definition, of one query head over these keys (rows, and how far they are). Formats of single
  // floats alone.
  struct Seen {
    int row;
    std::int64_t distance;
  };
  std::vector<double> dense(int query, int head, const std::vector<Seen>& seen) const {
    const KvShape& shape = case_.shape;
    const int kv_head = head * shape.heads / case_.heads;
    const RuleFields& f = case_.fields;
    const OwnedMatrix q = queries({query});
    std::vector<double> weights;
    double sum = f.sinks ? std::exp(static_cast<double>(sinks_[static_cast<size_t>(head)])) : 0.0;
    for (const Seen& one : seen) {
      double dot = 0;
      for (int d = 0; d < shape.k_dim; ++d) {
        dot += static_cast<double>(q.view.row(0)[head * shape.k_dim + d]) * key(one.row, kv_head * shape.k_dim + d);
      }
      double score = dot / std::sqrt(static_cast<double>(shape.k_dim));
      if (f.softcap > 0) score = f.softcap * std::tanh(score / f.softcap);
      if (f.bias == RuleFields::Bias::kSlopes) {
        score += static_cast<double>(slopes_[static_cast<size_t>(head)]) * static_cast<double>(one.distance);
      }
      if (f.bias == RuleFields::Bias::kTable) {
        const std::int64_t held = std::clamp<std::int64_t>(one.distance, -kBefore, kAfter);
        score += table_[static_cast<size_t>(head * (kBefore + 1 + kAfter) + held + kBefore)];
      }
      weights.push_back(std::exp(score));
      sum += weights.back();
    }
    std::vector<double> out(static_cast<size_t>(shape.v_dim), 0.0);
    for (size_t i = 0; i < seen.size(); ++i) {
      for (int d = 0; d < shape.v_dim; ++d) {
        const double number = shape.has_v() ? value(seen[i].row, kv_head * shape.v_dim + d)
                                            : key(seen[i].row, kv_head * shape.k_dim + shape.v_in_k + d);
        out[static_cast<size_t>(d)] += weights[i] / sum * number;
      }
    }
    return out;
  }

 private:
  int width(int dim) const { return case_.shape.heads * dim; }

  Backend& backend_;
  RuleCase case_;
  std::unique_ptr<KvStorage> storage_;
  std::vector<std::vector<BlockId>> tables_;
  std::vector<float> sinks_, slopes_, table_;
};

inline std::vector<int> counted(int first, int count) {
  std::vector<int> out(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) out[static_cast<size_t>(i)] = first + i;
  return out;
}

}  // namespace kvasir::testing
