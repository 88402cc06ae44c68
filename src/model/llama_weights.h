// The weights of a Llama in a backend's memory, as its forward pass takes them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "model/config.h"
#include "model/tensor_source.h"

namespace kvasir {

// Matrices one below the other, used as one. Neighbours of one type are one Weight; quantized files mix types.
using Stack = std::vector<std::unique_ptr<Weight>>;

// One transformer layer's weights. q, k and v are one matrix, and so are gate and up: fewer, larger products.
struct LlamaLayer {
  Buffer attention_norm;         // [hidden]
  Stack qkv;                     // [(heads + 2 kv_heads) * head_dim][hidden]
  Buffer qkv_bias;               // [(heads + 2 kv_heads) * head_dim], or none
  std::unique_ptr<Weight> out;   // [hidden][heads * head_dim]
  Buffer out_bias;               // [hidden], or none
  Buffer ffn_norm;               // [hidden]
  Stack gate_up;                 // [2 ffn][hidden]
  Buffer gate_up_bias;           // [2 ffn], or none
  std::unique_ptr<Weight> down;  // [hidden][ffn]
  Buffer down_bias;              // [hidden], or none
};

struct LlamaWeights {
  std::unique_ptr<Weight> embedding;  // [vocab][hidden]; also the head when tied
  std::unique_ptr<Weight> own_head;   // [vocab][hidden], or none
  Buffer final_norm;                  // [hidden]
  std::vector<LlamaLayer> layers;
  std::uint64_t bytes = 0;  // of all of them, without padding

  const Weight& head() const { return own_head ? *own_head : *embedding; }
  std::vector<std::span<const std::byte>> memory() const;  // of the matrices that every step reads
};

// `form`: of all matrices but an embedding that is nothing else. Throws Error.
LlamaWeights load_llama_weights(const ModelConfig& config, const TensorSource& weights, Backend& backend,
                                WeightForm form, const std::function<void(int done, int all)>& progress);

}  // namespace kvasir
