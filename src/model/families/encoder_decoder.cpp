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

// GGUF's "blk.N." and what stands behind all layers, in one of its two lists: "enc.blk.N.". The rest is of both.
std::vector<TensorSpec> in_gguf_list(std::vector<TensorSpec> tensors, std::string_view list) {
  for (TensorSpec& tensor : tensors) {
    if (list.empty()) tensor.gguf.clear();
    if (tensor.layer < 0 && tensor.role != TensorRole::kFinalNorm) continue;
    if (!tensor.gguf.empty()) tensor.gguf = fmt::format("{}.{}", list, tensor.gguf);
  }
  return tensors;
}

// "blk.5.attn_q.weight" is of the third block.
std::string in_block(std::string_view name, std::string_view layers, int layer) {
  const std::string before = fmt::format("{}.{}.", layers, layer);
  return fmt::format("{}.{}.{}", layers, layer / 2, name.substr(before.size()));
}

}  // namespace

std::vector<TensorSpec> encoder_tensors(const ModelSpec& spec, const LayerNames& names) {
  return in_gguf_list(decoder_tensors(spec, GgufRows::kAsStored, {}, names), names.gguf_list);
}

std::vector<TensorSpec> block_tensors(const ModelSpec& spec, const LayerNames& text, const LayerNames& source) {
  std::vector<TensorSpec> out;
  for (const auto& [names, second] : {std::pair(&text, 0), std::pair(&source, 1)}) {
    for (TensorSpec& tensor : decoder_tensors(spec, GgufRows::kAsStored, {}, *names)) {
      if (tensor.layer < 0 ? second == 1 : tensor.layer % 2 != second) continue;
      if (tensor.layer >= 0) {
        tensor.name = in_block(tensor.name, names->layers, tensor.layer);
        tensor.gguf = in_block(tensor.gguf, "blk", tensor.layer);
      }
      out.push_back(std::move(tensor));
    }
  }
  return in_gguf_list(std::move(out), text.gguf_list);
}

}  // namespace kvasir
