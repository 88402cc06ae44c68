// The weights of a decoder in a backend's memory, as its forward pass takes them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "model/spec.h"
#include "model/tensor_source.h"

namespace kvasir {

// Matrices one below the other, used as one. Neighbours of one type are one Weight; quantized files mix types.
using Stack = std::vector<std::unique_ptr<Weight>>;

// One transformer layer's weights. q, k and v are one matrix, and so are gate and up: fewer, larger products.
struct LayerWeights {
  Buffer attention_norm;         // [hidden], and behind it its bias where the spec's norms have one; or none, as all
  Buffer attention_post_norm;    // likewise
  Stack qkv;                     // [q, k and v widths][hidden]
  Buffer qkv_bias;               // [q, k and v widths], or none
  Buffer q_norm;                 // [k_dim], or none
  Buffer k_norm;                 // [k_dim], or none
  Buffer sink_logits;            // [heads], or none
  Buffer position_bias;          // slopes [heads], or a table [heads][distances], or none
  std::unique_ptr<Weight> out;   // [hidden][heads * v_dim]
  Buffer out_bias;               // [hidden], or none
  Buffer mlp_norm;               // likewise
  Buffer mlp_post_norm;          // likewise
  Stack gate_up;                 // [2 ffn][hidden]; [ffn][hidden] in a plain MLP
  Buffer gate_up_bias;           // [2 ffn] or [ffn], or none
  std::unique_ptr<Weight> down;  // [hidden][ffn]
  Buffer down_bias;              // [hidden], or none

  // Of a layer with experts, which has no gate_up and down of its own.
  std::unique_ptr<Weight> router;                     // [experts][hidden], float32
  Buffer choice_bias;                                 // [experts], or none
  std::vector<std::unique_ptr<Weight>> expert_parts;  // what `experts` point to
  std::vector<ExpertWeights> experts;
  int used_experts = 0;  // by a row
};

struct DecoderWeights {
  std::unique_ptr<Weight> embedding;  // [vocab][hidden]; also the head when tied
  std::unique_ptr<Weight> own_head;   // [vocab][hidden], or none
  Buffer final_norm;                  // [hidden]
  std::vector<LayerWeights> layers;
  std::uint64_t bytes = 0;  // of all of them, without padding

  const Weight& head() const { return own_head ? *own_head : *embedding; }
  std::vector<std::span<const std::byte>> memory() const;  // of the matrices that every step reads
};

// `form`: of all matrices but an embedding that is nothing else. Throws Error.
DecoderWeights load_decoder_weights(const ModelSpec& spec, const TensorSource& weights, Backend& backend,
                                    WeightQuantization form, const std::function<void(int done, int all)>& progress);

}  // namespace kvasir
