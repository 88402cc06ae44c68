// A decoder's layers over the residual stream, one after the other: every kind of layer that a spec can say.
#pragma once

#include <array>
#include <vector>

#include "backend/backend.h"
#include "backend/kv_storage.h"
#include "model/batch.h"
#include "model/cached_attention.h"
#include "model/decoder_weights.h"
#include "model/decoder_workspace.h"
#include "model/recurrent_layers.h"
#include "model/spec.h"

namespace kvasir {

// What all layers of a step share.
struct LayerStep {
  const Batch* batch = nullptr;
  const KvStorage* storage = nullptr;
  std::vector<RopeTable> ropes;     // by rope of the spec
  std::vector<RopeTable> at_sinks;  // the same where rows look at sinks; empty: nobody does, from behind a gap

  std::array<SequenceView, 1> all =
      {};  // a sequence of all rows, for ops that ask for sequences and not for their cache
  SequenceViews all_rows = {};

  int rows() const { return batch->rows(); }
};

// INVARIANT: between two calls x lacks what `pending_` says: what the last branch made lies in workspace.branch.
class DecoderLayers {
 public:
  // All of these outlive it.
  DecoderLayers(const ModelSpec& spec, const DecoderWeights& weights, const Workspace& space, Backend& backend,
                CachedAttention& attention);

  // All layers: workspace.x holds the stream before the first and behind the last one.
  void run(const LayerStep& step);

 private:
  // What a layer's branches read and write.
  struct Rows {
    Matrix x;
    Matrix y;  // what the branch makes
    Matrix normed;
  };

  const LayerWeights& layer(int index) const { return weights_.layers[static_cast<size_t>(index)]; }
  const LayerSpec& layer_spec(int index) const { return spec_.layers[static_cast<size_t>(index)]; }
  Rows rows_of(int rows) const;
  NormRule rule(const Buffer& norm) const;
  NormRule head_rule(const Buffer& norm) const;
  NormRule plain_rule() const;

  void run_fused(int index, const LayerStep& step);
  void run_apart(int index, const LayerStep& step);
  void mix_fused(int index, const LayerStep& step);
  void add_pending(int rows);
  void tap_stream(int index, const LayerStep& step);
  Matrix attention_input(int index, const Rows& rows);
  Matrix branch_input(const LayerSpec& layer, const Buffer& norm, const Rows& rows);
  void add_branch(const LayerSpec& layer, const Buffer& norm, const Buffer& post_norm, const Rows& rows);

  void matmul(const Stack& stack, Matrix x, const float* bias, Matrix out);
  void project(int index, const LayerStep& step, Matrix x, Matrix qkv);
  Matrix qkv_rows(int index, int rows) const;
  void mix(int index, const LayerStep& step, Matrix x);
  void attend(int index, const LayerStep& step, Matrix qkv);
  void normalize_heads(int index, LayerRows& rows);
  LayerRows layer_rows(const LayerStep& step, Matrix qkv, const AttentionSpec& spec) const;
  static ScoreRule score_rule(const AttentionSpec& spec, const LayerWeights& weights);

  void feed_fused(int index, int rows);
  void feed(int index, Matrix normed);
  void feed_in_parts(const LayerWeights& weights, const MlpSpec& spec, Matrix normed);
  void feed_all(const LayerWeights& weights, const MlpSpec& spec, Matrix x, Matrix out);
  void feed_experts(const LayerWeights& weights, const MlpSpec& spec, Matrix routed, Matrix x);
  void feed_beside_experts(const LayerWeights& weights, const MlpSpec& spec, Matrix normed);
  void add_layer_input(int index, int rows);

  const ModelSpec& spec_;
  const DecoderWeights& weights_;
  const Workspace& space_;
  Backend& backend_;
  CachedAttention& attention_;
  RecurrentLayers recurrent_;
  bool pending_ = false;  // what the last branch made is not added to x yet
};

}  // namespace kvasir
