#include "model/llama_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "backend/weight_reader.h"

namespace kvasir {
namespace {

class Loader {
 public:
  Loader(const ModelConfig& config, const TensorSource& weights, Backend& backend, WeightForm form)
      : config_(config), weights_(weights), backend_(backend), form_(form), bytes_(weights.bytes()) {}

  std::uint64_t bytes() const { return bytes_; }

  void load_ends(LlamaWeights& out) {
    out.embedding = load({weights_.matrix("model.embed_tokens.weight", config_.vocab, config_.hidden)},
                         config_.tied_embeddings ? form_ : WeightForm::kAsStored);
    out.final_norm = load_vectors({weights_.vector("model.norm.weight", config_.hidden)});
    if (!config_.tied_embeddings) {
      out.own_head = load({weights_.matrix("lm_head.weight", config_.vocab, config_.hidden)}, form_);
    }
  }

  LlamaLayer load_layer(const std::string& at) {
    const int hidden = config_.hidden;
    const int q_width = config_.heads * config_.head_dim;
    const int kv_width = config_.kv_heads * config_.head_dim;
    const std::string attention = at + "self_attn.";
    const std::string mlp = at + "mlp.";
    LlamaLayer layer;
    layer.attention_norm = load_vectors({weights_.vector(at + "input_layernorm.weight", hidden)});
    layer.qkv = load_stack({weights_.matrix(attention + "q_proj.weight", q_width, hidden),
                            weights_.matrix(attention + "k_proj.weight", kv_width, hidden),
                            weights_.matrix(attention + "v_proj.weight", kv_width, hidden)});
    layer.out = load({weights_.matrix(attention + "o_proj.weight", hidden, q_width)}, form_);
    layer.ffn_norm = load_vectors({weights_.vector(at + "post_attention_layernorm.weight", hidden)});
    layer.gate_up = load_stack({weights_.matrix(mlp + "gate_proj.weight", config_.ffn, hidden),
                                weights_.matrix(mlp + "up_proj.weight", config_.ffn, hidden)});
    layer.down = load({weights_.matrix(mlp + "down_proj.weight", hidden, config_.ffn)}, form_);
    if (config_.attention_bias) {
      layer.qkv_bias = load_vectors({weights_.vector(attention + "q_proj.bias", q_width),
                                     weights_.vector(attention + "k_proj.bias", kv_width),
                                     weights_.vector(attention + "v_proj.bias", kv_width)});
      layer.out_bias = load_vectors({weights_.vector(attention + "o_proj.bias", hidden)});
    }
    if (config_.mlp_bias) {
      layer.gate_up_bias = load_vectors(
          {weights_.vector(mlp + "gate_proj.bias", config_.ffn), weights_.vector(mlp + "up_proj.bias", config_.ffn)});
      layer.down_bias = load_vectors({weights_.vector(mlp + "down_proj.bias", hidden)});
    }
    return layer;
  }

 private:
  Stack load_stack(const std::vector<HostWeight>& stacked) {
    Stack loaded;
    for (auto begin = stacked.begin(); begin != stacked.end();) {
      const auto end = std::find_if(begin, stacked.end(), [&](const auto& one) { return one.dtype != begin->dtype; });
      loaded.push_back(load({begin, end}, form_));
      begin = end;
    }
    return loaded;
  }

  std::unique_ptr<Weight> load(std::vector<HostWeight> stacked, WeightForm form) {
    for (HostWeight& weight : stacked) {
      weight.form = form;
      if (form == WeightForm::kAsStored) continue;
      const auto outputs = static_cast<std::uint64_t>(weight.rows);  // a scale each
      bytes_ += outputs * (static_cast<std::uint64_t>(weight.cols) + sizeof(float));
      bytes_ -= outputs * row_bytes(weight.dtype, weight.cols);
    }
    std::unique_ptr<Weight> loaded = backend_.load(stacked);
    for (const HostWeight& weight : stacked) weights_.done_with(weight);
    return loaded;
  }

  // One-row tensors one after the other, as floats: norms and biases.
  Buffer load_vectors(const std::vector<HostWeight>& stacked) {
    std::vector<float> values;
    for (const HostWeight& weight : stacked) {
      const std::vector<float> one = read_vector(weight);
      values.insert(values.end(), one.begin(), one.end());
      weights_.done_with(weight);
    }
    Buffer buffer = backend_.allocate(values.size() * sizeof(float));
    backend_.upload(buffer.as<std::byte>(), std::as_bytes(std::span(values)));
    return buffer;
  }

  const ModelConfig& config_;
  const TensorSource& weights_;
  Backend& backend_;
  WeightForm form_;
  std::uint64_t bytes_;
};

}  // namespace

std::vector<std::span<const std::byte>> LlamaWeights::memory() const {
  std::vector<std::span<const std::byte>> out{head().memory()};
  for (const LlamaLayer& layer : layers) {
    for (const Stack* stack : {&layer.qkv, &layer.gate_up}) {
      for (const auto& weight : *stack) out.push_back(weight->memory());
    }
    for (const Weight* weight : {layer.out.get(), layer.down.get()}) out.push_back(weight->memory());
  }
  return out;
}

LlamaWeights load_llama_weights(const ModelConfig& config, const TensorSource& weights, Backend& backend,
                                WeightForm form, const std::function<void(int done, int all)>& progress) {
  Loader loader(config, weights, backend, form);
  LlamaWeights out;
  loader.load_ends(out);
  for (int i = 0; i < config.layers; ++i) {
    if (progress) progress(i, config.layers);
    out.layers.push_back(loader.load_layer(fmt::format("model.layers.{}.", i)));
  }
  if (progress) progress(config.layers, config.layers);
  out.bytes = loader.bytes();
  return out;
}

}  // namespace kvasir
