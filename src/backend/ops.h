// Everything that a model asks a backend to compute, as values. An op says what it reads and writes; run(op) does it.
//
// A new op is a struct here, a line in `Op`, an implementation in each backend and a test. A fused op stands for
// several plain ones, with the same bits; lower.h says which, for every backend that has no kernel for it. Two ops
// are equal if they would do the same to the same memory: what a backend records it compares by that.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "backend/activation_function.h"
#include "backend/operands.h"
#include "backend/recurrent_ops.h"
#include "backend/sequence_views.h"
#include "backend/tensor.h"
#include "base/ids.h"
#include "layout/host_device.h"
#include "layout/kv_view.h"
#include "layout/token_eviction.h"

namespace kvasir {

// Plain ops. x and out may be the same matrix where the shapes agree, except in matmul, project and attention.

struct CopyOp {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // both in the backend's memory
  size_t bytes = 0;
  friend bool operator==(const CopyOp&, const CopyOp&) = default;
};
struct EmbedOp {  // out[r] = table[tokens[r]]
  const Weight* table = nullptr;
  ArrayRef<TokenId> tokens;  // on the host; or sampled_token()s
  Matrix out;
  friend bool operator==(const EmbedOp&, const EmbedOp&) = default;
};
struct NormOp {  // of each row, or of each of its `heads` equal parts
  enum class Weights : std::uint8_t {
    kShared,      // by all parts
    kOfEachPart,  // those of one part behind those of another
  };

  Matrix x;
  NormRule rule;
  Matrix out;
  int heads = 1;
  Weights weights = Weights::kShared;  // and biases

  KVASIR_HD int width() const { return x.cols / heads; }  // of a part
  NormRule rule_of(int part) const {
    const int first = weights == Weights::kShared ? 0 : part * width();
    return {rule.weight + first, rule.eps, rule.bias == nullptr ? nullptr : rule.bias + first, rule.kind};
  }
  friend bool operator==(const NormOp&, const NormOp&) = default;
};
struct MatmulOp {  // out = weight * x + bias
  const Weight* weight = nullptr;
  Matrix x;
  const float* bias = nullptr;  // may be null
  Matrix out;
  friend bool operator==(const MatmulOp&, const MatmulOp&) = default;
};
struct RopeOp {  // in place
  Matrix x;
  int heads = 0;
  RopeTable table;
  friend bool operator==(const RopeOp&, const RopeOp&) = default;
};
struct ProjectOp {  // of the sequences' rows: [rows][heads * inputs] becomes [rows][heads * outputs]
  Matrix x;
  int heads = 0;
  PerHeadLinear by;
  SequenceViews sequences;
  Matrix out;
  friend bool operator==(const ProjectOp&, const ProjectOp&) = default;
};
struct KvWriteOp {
  Matrix k;
  Matrix v;  // none where the view's V is a part of K
  KvView view;
  SequenceViews sequences;
  friend bool operator==(const KvWriteOp&, const KvWriteOp&) = default;
};
// out: [rows][heads * v_dim]. A row that sees nothing gets zeros and, where wanted, an empty state, or that of its
// sink logit alone.
struct AttentionOp {
  AttentionBatch batch;
  Matrix out;
  friend bool operator==(const AttentionOp&, const AttentionOp&) = default;
};
struct MergeAttentionOp {  // the sequences' rows of `into` become attention over the keys of both, which share none
  AttentionPart into;
  AttentionPart from;
  SequenceViews sequences;
  friend bool operator==(const MergeAttentionOp&, const MergeAttentionOp&) = default;
};
// After the batch's attention. Each score is a sum in the order of the queries, so chunks change nothing. REQUIRES: a
// causal mask, and no tree.
struct WatchAttentionOp {
  AttentionBatch batch;
  AttentionWatch watch;
  friend bool operator==(const WatchAttentionOp&, const WatchAttentionOp&) = default;
};
// Rows of one layer of one sequence change their places, one move after the other; their codes stay as they are.
struct KvMoveOp {
  KvView view;
  const BlockId* blocks = nullptr;
  ArrayRef<RowMove> moves;
  friend bool operator==(const KvMoveOp&, const KvMoveOp&) = default;
};
struct SwigluOp {  // out = silu(gate) * up
  Matrix gate;
  Matrix up;
  Matrix out;
  friend bool operator==(const SwigluOp&, const SwigluOp&) = default;
};
struct ActivationOp {  // out = activation(x), or activation(x) * up where that is there
  Activation activation = Activation::kSilu;
  Matrix x;
  Matrix up;  // or none
  Matrix out;
  float limit = 0;  // of kSwigluOai
  friend bool operator==(const ActivationOp&, const ActivationOp&) = default;
};
// x *= factor; then, where `softcap` is above 0, x = softcap * tanh(x / softcap); and where `limit` is, x is held to
// -limit … limit.
struct ScaleOp {
  Matrix x;
  float factor = 1.0F;
  float softcap = 0.0F;
  float limit = 0.0F;
  friend bool operator==(const ScaleOp&, const ScaleOp&) = default;
};
// out[r] = the sum of what r's experts make of x[r], each times its weight, in the order in which they were chosen.
struct ExpertsOp {
  Matrix x;       // [rows][hidden]
  Matrix logits;  // [rows][experts], the router's
  RouterRule rule;
  ArrayRef<ExpertWeights> experts;
  Matrix out;  // [rows][hidden]; not x
  Activation activation = Activation::kSilu;
  float limit = 0;                      // of kSwigluOai
  const float* gate_up_bias = nullptr;  // [experts][projected_width], or none
  const float* down_bias = nullptr;     // [experts][hidden], or none

  const float* gate_up_bias_of(int expert) const {
    const std::int64_t step = experts.front().projected_width();
    return gate_up_bias == nullptr ? nullptr : gate_up_bias + expert * step;
  }
  const float* down_bias_of(int expert) const {
    return down_bias == nullptr ? nullptr : down_bias + std::int64_t{expert} * out.cols;
  }
  friend bool operator==(const ExpertsOp&, const ExpertsOp&) = default;
};
struct SigmoidGateOp {  // x *= sigmoid(gate), number by number, or each row by its one
  Matrix x;
  Matrix gate;  // [rows][x.cols], or [rows][1]
  friend bool operator==(const SigmoidGateOp&, const SigmoidGateOp&) = default;
};
struct QueryScaleOp {  // row r of x times table.query_scale of its rope row
  Matrix x;
  RopeTable table;
  friend bool operator==(const QueryScaleOp&, const QueryScaleOp&) = default;
};
struct AddOp {  // x += y
  Matrix x;
  Matrix y;
  friend bool operator==(const AddOp&, const AddOp&) = default;
};

// Fused ops.

struct AddNormOp {  // x += y; out = norm(x)
  Matrix x;
  Matrix y;
  NormRule rule;
  Matrix out;
  friend bool operator==(const AddNormOp&, const AddNormOp&) = default;
};
// out = weight * (silu(gate) * up); gate holds anything afterwards. Gates and ups may be rounded first to what rows
// are rounded to that meet the weight, and silu need be no better than that.
struct GatedMatmulOp {
  const Weight* weight = nullptr;
  Matrix gate;
  Matrix up;
  const float* bias = nullptr;  // may be null
  Matrix out;
  friend bool operator==(const GatedMatmulOp&, const GatedMatmulOp&) = default;
};
struct NormMatmulOp {  // out = weight * norm(x + y); rows.normed holds anything afterwards
  NormedRows rows;
  const Weight* weight = nullptr;
  const float* bias = nullptr;  // may be null
  Matrix out;
  friend bool operator==(const NormMatmulOp&, const NormMatmulOp&) = default;
};
struct FeedForwardOp {  // a NormMatmulOp and a GatedMatmulOp behind it; gate_up, [rows][2 ffn], holds anything
                        // afterwards
  NormedRows rows;
  GatedMlp mlp;
  Matrix gate_up;
  Matrix out;
  friend bool operator==(const FeedForwardOp&, const FeedForwardOp&) = default;
};
struct RopeKvWriteOp {  // q and k are rotated in place, and k and v written. REQUIRES: every row is one of the
                        // sequences'.
  QkvRows rows;
  KvView view;
  SequenceViews sequences;
  friend bool operator==(const RopeKvWriteOp&, const RopeKvWriteOp&) = default;
};

using Op =
    std::variant<CopyOp, EmbedOp, NormOp, MatmulOp, RopeOp, ProjectOp, KvWriteOp, AttentionOp, MergeAttentionOp,
                 WatchAttentionOp, KvMoveOp, SwigluOp, ActivationOp, ScaleOp, ExpertsOp, QueryScaleOp, SigmoidGateOp,
                 AddOp, CausalConvOp, DecayOp, RecurrenceOp, StateRoundOp, StateEncodeOp, StateDecodeOp, AddNormOp,
                 GatedMatmulOp, NormMatmulOp, FeedForwardOp, RopeKvWriteOp>;

}  // namespace kvasir
