// What families of encoder-decoders are made of: see family.h.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "model/families/family.h"

namespace kvasir {

void read_answer_start(const JsonReader& in, DecoderConfig& config) {
  const IntegerRange tokens{0, config.vocab - 1};
  const std::int64_t padding = config_integer(in, "pad_token_id", tokens, 0);
  config.answer_start = {static_cast<TokenId>(config_integer(in, "decoder_start_token_id", tokens, padding))};
  if (in.find("forced_bos_token_id"))
    config.answer_start.push_back(static_cast<TokenId>(in.get("forced_bos_token_id").integer(tokens)));
}

void add_encoder(ModelSpec& spec, const DecoderConfig& config) {
  ModelSpec encoder = spec;
  LayerSpec layer = spec.layers.front();
  layer.attention.heads = layer.attention.kv.heads = config.encoder.heads;
  if (config.family->keys.head_dim.empty())
    layer.attention.kv.k_dim = layer.attention.kv.v_dim = config.hidden / config.encoder.heads;
  if (config.attention_scale == 0)
    layer.attention.scale = 1.0F / std::sqrt(static_cast<float>(layer.attention.kv.k_dim));
  layer.mlp.width = config.encoder.ffn;
  encoder.layers.assign(static_cast<size_t>(config.encoder.layers), layer);
  encoder.logit_scale = 1.0F;
  make_encoder(encoder);

  std::vector<LayerSpec> layers;
  for (const LayerSpec& block : spec.layers) {
    LayerSpec& text = layers.emplace_back(block);
    text.mlp = {};
    LayerSpec& source = layers.emplace_back(block);
    source.attention.of_source = true;
    source.attention.mask = ScoreRule::Mask::kAll;
    source.attention.bias = {};
  }
  spec.layers = std::move(layers);
  spec.answer_start = config.answer_start;
  spec.encoder.push_back(std::move(encoder));
}

namespace {

// In no GGUF file that is read here.
std::vector<TensorSpec> without_gguf(std::vector<TensorSpec> tensors) {
  for (TensorSpec& tensor : tensors) {
    tensor.gguf.clear();
    tensor.gguf_else.clear();
  }
  return tensors;
}

}  // namespace

std::vector<TensorSpec> encoder_tensors(const ModelSpec& spec, const LayerNames& names) {
  return without_gguf(decoder_tensors(spec, GgufRows::kAsStored, {}, names));
}

std::vector<TensorSpec> block_tensors(const ModelSpec& spec, const LayerNames& text, const LayerNames& source) {
  std::vector<TensorSpec> out;
  for (const auto& [names, second] : {std::pair(&text, 0), std::pair(&source, 1)}) {
    for (TensorSpec& tensor : decoder_tensors(spec, GgufRows::kAsStored, {}, *names)) {
      if (tensor.layer < 0 ? second == 1 : tensor.layer % 2 != second) continue;
      if (tensor.layer >= 0) {
        const std::string layer = fmt::format("{}.{}.", names->layers, tensor.layer);
        tensor.name = fmt::format("{}.{}.{}", names->layers, tensor.layer / 2, tensor.name.substr(layer.size()));
      }
      out.push_back(std::move(tensor));
    }
  }
  return without_gguf(std::move(out));
}

}  // namespace kvasir
