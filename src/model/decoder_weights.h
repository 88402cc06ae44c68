// The weights of a decoder in a backend's memory, as its forward pass takes them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "model/model.h"
#include "model/spec.h"
#include "model/tensor_source.h"

namespace kvasir {

// Matrices one below the other, used as one. Neighbours of one type are one Weight; quantized files mix types.
using Stack = std::vector<std::unique_ptr<Weight>>;

// A recurrent layer's.
struct RecurrentWeights {
  Stack in;                       // [in_width][hidden]: see RecurrentLayers
  std::unique_ptr<Weight> gate;   // of gates and decays that come through fewer numbers: [v_width][gate_rank] …
  std::unique_ptr<Weight> decay;  // … and [heads * k_dim][gate_rank]; or none
  Buffer conv;                    // [conv_weights][channels]
  Buffer conv_bias;               // [channels], or none
  Buffer step_bias;               // [heads], or [heads * k_dim] where each row of a state decays by itself
  Buffer rate;                    // [heads], below 0
  Buffer skip;                    // [heads], or none
  Buffer norm;                    // [v_dim], or of all heads, or none
  Buffer q_unit;  // [k_dim], the weights of norms that make queries and keys as long as they are to be
  Buffer k_unit;
  std::unique_ptr<Weight> out;  // [hidden][v_width]
};

// One transformer layer's weights. q, k and v are one matrix, and so are gate and up: fewer, larger products.
struct LayerWeights {
  Buffer attention_norm;       // [hidden], and behind it its bias where the spec's norms have one; or none, as all
  Buffer attention_post_norm;  // likewise
  Stack qkv;                   // [q, k and v widths][hidden]; queries alone, of a layer that reads a source
  Stack source_kv;             // [source width][hidden], of such a layer
  Buffer source_kv_bias;       // [source width], or none
  Buffer qkv_bias;             // [q, k and v widths], or none
  Buffer q_norm;               // [k_dim] and its bias, or [heads][k_dim], or [heads * k_dim], or none
  Buffer k_norm;               // likewise
  Buffer sink_logits;          // [heads], or none

  // Of latent attention, which has no qkv.
  std::unique_ptr<Weight> q_a;   // [q_rank][hidden], or none
  Buffer q_a_bias;               // [q_rank], or none
  Buffer q_a_norm;               // [q_rank]
  std::unique_ptr<Weight> q_b;   // [heads * q_dim][q_rank or hidden]
  Stack latent;                  // [rope_dim + kv_rank][hidden]
  Buffer latent_bias;            // [rope_dim + kv_rank], or none
  Buffer latent_norm;            // [kv_rank]
  Buffer absorb;                 // [heads][q_dim][rope_dim + kv_rank]: a query as it meets the cached row
  Buffer expand;                 // [heads][kv_rank][v_dim]: what attention gives as a head's values
  Buffer position_bias;          // slopes [heads], or a table [heads][distances], or none
  std::unique_ptr<Weight> out;   // [hidden][heads * v_dim], or none
  Buffer out_bias;               // [hidden], or none
  Buffer mlp_norm;               // likewise
  Buffer mlp_post_norm;          // likewise
  Stack gate_up;                 // [2 ffn][hidden]; [ffn][hidden] in a plain MLP
  Buffer gate_up_bias;           // [2 ffn] or [ffn], or none
  std::unique_ptr<Weight> down;  // [hidden][ffn]
  Buffer down_bias;              // [hidden], or none

  RecurrentWeights recurrent;  // of a recurrent layer

  // Of a layer with experts, which has gate_up and down only where an MLP for all rows stands beside them.
  std::unique_ptr<Weight> router;       // [experts][hidden], float32
  Buffer router_bias;                   // [experts], or none
  std::unique_ptr<Weight> expert_in;    // [latent][hidden], or none
  std::unique_ptr<Weight> expert_out;   // [hidden][latent], or none
  std::unique_ptr<Weight> shared_gate;  // [1][hidden], float32, or none
  Buffer choice_bias;                   // likewise
  Buffer expert_scale;                  // likewise
  Buffer expert_gate_up_bias;           // [experts][2 width], or none
  Buffer expert_down_bias;              // [experts][hidden], or none
  Buffer router_scale;                  // [hidden]: of experts with norms of their own, as the next ones
  Buffer expert_norm;
  Buffer expert_post_norm;
  Buffer shared_post_norm;
  std::vector<std::unique_ptr<Weight>> expert_parts;  // what `experts` point to
  std::vector<ExpertWeights> experts;
  int used_experts = 0;  // by a row

  // Of a model whose layers are given something of each token.
  std::unique_ptr<Weight> layer_gate;  // [layer_input][hidden]
  std::unique_ptr<Weight> layer_out;   // [hidden][layer_input]
  Buffer layer_post_norm;
  float scale = 1.0F;  // of x behind the layer
};

struct DecoderWeights {
  std::shared_ptr<Weight> embedding;         // [vocab][table width]; also the head when tied, and its encoder's
  std::unique_ptr<Weight> embedding_in;      // [hidden][table width], or none
  std::unique_ptr<Weight> embedding_out;     // [table width][hidden], or none
  std::unique_ptr<Weight> positions;         // [positions][hidden], or none
  std::unique_ptr<Weight> token_types;       // [token types][hidden], or none
  std::unique_ptr<Weight> layer_embedding;   // [vocab][layers * layer_input], or none
  std::unique_ptr<Weight> layer_projection;  // [layers * layer_input][hidden], or none
  Buffer layer_projection_norm;              // [layer_input], or none
  Buffer embedding_norm;                     // [hidden], or none
  Buffer head_bias;                          // [vocab], or none
  Buffer ones;                               // as many as the largest head has numbers: of norms without weights
  std::shared_ptr<Weight> own_head;          // [vocab][hidden], or none; a draft head's may be its target's
  Buffer final_norm;                         // [hidden]
  Buffer draft_embedding_norm;               // of a draft head, as the next two: [hidden]
  Buffer draft_given_norm;                   // [hidden]
  std::unique_ptr<Weight> draft_join;        // kNextN: [hidden][2 hidden]; kEagle3: [hidden][features]
  std::vector<LayerWeights> layers;
  std::uint64_t bytes = 0;  // of all of them, without padding

  // Of a norm of the stream.
  NormRule rule(const ModelSpec& spec, const Buffer& norm) const {
    const float* weight = spec.norm_weights ? norm.as<float>() : ones.as<float>();
    const float* bias = spec.norm_weights && spec.norm_bias ? weight + spec.hidden : nullptr;
    return {weight, static_cast<float>(spec.norm_eps), bias, spec.norm};
  }
  const Weight& head() const { return own_head ? *own_head : *embedding; }
  std::vector<std::span<const std::byte>> memory() const;  // of the matrices that every step reads
};

struct DecoderLoad {
  WeightQuantization form = WeightQuantization::kAsStored;  // of all matrices but an embedding that is nothing else
  std::function<void(int done, int all)> progress;          // layers; may be empty
  SharedWeights shared;                                     // what is null is loaded, too
};

// The spec's own; those of its encoder are loaded by themselves. Throws Error.
DecoderWeights load_decoder_weights(const ModelSpec& spec, const TensorSource& weights, Backend& backend,
                                    const DecoderLoad& how);

}  // namespace kvasir
