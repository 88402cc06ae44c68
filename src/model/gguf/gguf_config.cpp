#include "model/gguf/gguf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_heads.h"
#include "model/gguf/gguf_options.h"
#include "model/gguf/gguf_rope.h"
#include "model/gguf/gguf_states.h"
#include "model/tensors.h"

namespace kvasir {
namespace {

constexpr std::string_view kEmbedding = "token_embd.weight";
constexpr std::string_view kHead = "output.weight";

std::int64_t experts_of(const GgufModel& model, std::string_view architecture) {
  return model.integer_if(fmt::format("{}.expert_count", architecture), 0, ShapeLimits::kExperts).value_or(0);
}

// The family, and whether the file is of its encoders.
void read_family(const GgufModel& model, DecoderConfig& config) {
  const std::string_view name = model.text_if("general.architecture").value_or("");
  config.moe.experts = static_cast<int>(experts_of(model, name));
  const bool experts = config.moe.experts > 0;
  std::vector<std::string_view> known;  // architectures, each once
  for (const Family* family : families()) {
    for (const GgufForm* form : {&family->gguf, &family->gguf_encoder, &family->gguf_experts}) {
      const std::string_view theirs = form->architecture;
      if (theirs.empty()) continue;
      config.family = family;
      config.both_ways = form == &family->gguf_encoder;
      if (theirs == name && (family->experts == experts || form->maybe_experts)) return;
      if (std::ranges::find(known, theirs) == known.end()) known.push_back(theirs);
    }
  }
  if (experts) model.fail(fmt::format("general.architecture is '{}' with experts", name.substr(0, 40)));
  model.fail(
      fmt::format("general.architecture is '{}', and known are {}", name.substr(0, 40), fmt::join(known, ", ")));
}

void read_expert_sizes(const GgufReader& in, DecoderConfig& config) {
  config.moe = gguf_form_of(config).moe;
  config.moe.experts = in.size("expert_count", ShapeLimits::kExperts);
  config.moe.used = in.size("expert_used_count", config.moe.experts);
  config.expert_ffn = in.size_or("expert_feed_forward_length", ShapeLimits::kFfn, config.ffn);
  // Layers without a router have one MLP: leading_dense_block_count says no more than that.
  for (int layer = 0; layer < config.layers; ++layer) {
    if (!in.has_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", layer))) config.dense_layers.push_back(layer);
  }
  int first = 0;
  while (std::ranges::find(config.dense_layers, first) != config.dense_layers.end()) ++first;
  const auto tensor = [first](std::string_view name) { return fmt::format("blk.{}.{}", first, name); };
  config.moe.shared_width = in.rows_of(tensor("ffn_up_shexp.weight"), ShapeLimits::kFfn);
  config.moe.shared_gate = in.has_tensor(tensor("ffn_gate_inp_shexp.weight"));
  config.moe.choice_bias = in.has_tensor(tensor("exp_probs_b.bias"));
  config.moe.router_bias = in.has_tensor(tensor("ffn_gate_inp.bias"));
}

// Latent attention. Files from before llama.cpp cached latents say what heads are once keys and values are made.
void read_latent_sizes(const GgufReader& in, DecoderConfig& config) {
  LatentSpec& latent = config.latent;
  const auto size = [&in](std::string_view newer, std::string_view older) {
    return in.size_or(newer, ShapeLimits::kHeadDim, in.size_or(older, ShapeLimits::kHeadDim, 0));
  };
  latent.kv_rank = in.size("attention.kv_lora_rank", ShapeLimits::kHeadDim);
  latent.q_rank = in.size_or("attention.q_lora_rank", ShapeLimits::kHidden, 0);
  latent.rope_dim = in.size("rope.dimension_count", ShapeLimits::kHeadDim);
  latent.nope_dim = size("attention.key_length_mla", "attention.key_length") - latent.rope_dim;
  latent.v_dim = size("attention.value_length_mla", "attention.value_length");
  if (latent.nope_dim < 1 || latent.v_dim < 1 || latent.rope_dim % 2 != 0) {
    in.fail(fmt::format("heads of {} numbers, {} of them rotated, and {} as values, are not supported",
                        latent.q_dim(), latent.rope_dim, latent.v_dim));
  }
  latent.pairs = LatentSpec::Pairs::kNeighbours;
  latent.bias = config.attention_bias = in.has_tensor("blk.0.attn_kv_a_mqa.bias");
  config.kv_heads = config.heads;
  config.head_dim = latent.shape().k_dim;
}

int read_vocab(const GgufReader& in) {
  const GgufModel& model = in.model();
  // The table decides: vocab_size is often absent, and a table may have rows beyond the tokens.
  const GgufTensor* table = model.find(kEmbedding);
  if (table == nullptr || table->shape.size() != 2) model.fail("there is no table token_embd.weight");
  if (table->shape[0] > ShapeLimits::kVocab) return in.size("vocab_size", ShapeLimits::kVocab);
  return static_cast<int>(table->shape[0]);
}

// Which layers have the window: a period, or a flag for each of them, or what the architecture means.
void read_gguf_windows(const GgufReader& in, DecoderConfig& config) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const GgufForm& form = gguf_form_of(config);
  const std::int64_t window =
      in.integer_if("attention.sliding_window", 0, ShapeLimits::kContext).value_or(form.window);
  const GgufValue* pattern = in.model().value(in.key(kPattern));
  if (window == 0 || (pattern == nullptr && form.windows_need_pattern)) return;
  if (pattern == nullptr || !std::holds_alternative<GgufNumbers>(*pattern)) {
    const std::int64_t every = in.integer_if(kPattern, 0, ShapeLimits::kLayers).value_or(form.global_every);
    set_windows(window, {.every = every, .phase = form.window_phase}, config);
  } else {
    config.windows = in.per_layer(kPattern, {0, 1}, config.layers).value();
    for (std::int64_t& one : config.windows) one *= window;
  }
  if (std::ranges::count(config.windows, 0) == config.layers) config.windows.clear();
  const std::optional<double> theta = in.positive_if("rope.freq_base_swa");
  if (!theta || config.windows.empty()) return;
  config.local_rope = config.rope;
  config.local_rope->theta = *theta;
}

// The type that takes most bytes: a file mixes them.
DType main_type(const GgufModel& model) {
  std::array<std::uint64_t, kWeightTypes.size()> bytes{};
  for (const GgufFile& file : model.files()) {
    for (const auto& [name, tensor] : file.content.tensors) {
      if (tensor.dtype) bytes[static_cast<std::size_t>(*tensor.dtype)] += tensor.bytes.size();
    }
  }
  return static_cast<DType>(std::ranges::max_element(bytes) - bytes.begin());
}

void read_tokens(const GgufModel& model, DecoderConfig& config) {
  const auto token = [&](std::string_view key) { return model.integer_if(key, 0, config.vocab - 1); };
  // Whether a text begins with it is the tokenizer's matter: a model without it runs as well.
  const std::int64_t bos = model.integer_if("tokenizer.ggml.bos_token_id", INT64_MIN, INT64_MAX).value_or(-1);
  config.bos = bos >= 0 && bos < config.vocab ? static_cast<TokenId>(bos) : -1;
  for (const std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const auto id = static_cast<TokenId>(token(key).value_or(-1));
    if (id >= 0 && std::ranges::find(config.eos, id) == config.eos.end()) config.eos.push_back(id);
  }
}

// Of all layers, or, where those with states have none, of the others.
int read_kv_heads(const GgufReader& in, const DecoderConfig& config) {
  constexpr std::string_view kKey = "attention.head_count_kv";
  using Layers = GgufStates::Layers;
  const GgufForm& form = gguf_form_of(config);
  if (form.two_kinds) return in.of_first_layer(kKey, ShapeLimits::kHeads, config.heads, config.layers);
  if (form.states.layers != Layers::kWithoutKvHeads && form.states.layers != Layers::kOneBranch) {
    return in.alike(kKey, ShapeLimits::kHeads, config.heads, config.layers);
  }
  int found = 0;
  const auto all = in.per_layer(kKey, {0, ShapeLimits::kHeads}, config.layers);
  for (const std::int64_t one : all ? *all : std::vector<std::int64_t>()) {
    if (one != 0 && found != 0 && one != found) in.fail(in.key(kKey) + " differs between layers");
    if (one != 0) found = static_cast<int>(one);
  }
  return found == 0 ? config.heads : found;
}

// Where a layer has one branch, of the first that has an MLP without a router; 0: none has.
int read_ffn(const GgufReader& in, const DecoderConfig& config) {
  constexpr std::string_view kKey = "feed_forward_length";
  const GgufForm& form = gguf_form_of(config);
  if (form.two_kinds) return in.of_first_layer(kKey, ShapeLimits::kFfn, 0, config.layers);
  if (form.states.layers != GgufStates::Layers::kOneBranch)
    return in.alike(kKey, ShapeLimits::kFfn, 0, config.layers);
  const auto all = in.per_layer(kKey, {0, ShapeLimits::kFfn}, config.layers);
  for (int i = 0; all && i < config.layers; ++i) {
    const std::int64_t width = (*all)[static_cast<size_t>(i)];
    if (width > 0 && !in.has_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", i))) return static_cast<int>(width);
  }
  return 0;
}

// What was read is the encoder's. An answer begins with the padding's token where nothing else is said.
void read_second_list(const GgufReader& in, DecoderConfig& config) {
  config.encoder = {config.layers, config.heads, config.ffn};
  config.layers = in.size_or("decoder_block_count", ShapeLimits::kLayers / 2, config.layers);
  config.answer_start = {0};
}

void read_sizes(const GgufReader& in, DecoderConfig& config) {
  config.layers = in.size("block_count", ShapeLimits::kLayers);
  // Layers behind the last one that predict further tokens, and are not run.
  config.layers -= static_cast<int>(in.integer_if("nextn_predict_layers", 0, config.layers - 1).value_or(0));
  config.hidden = in.size("embedding_length", ShapeLimits::kHidden);
  config.ffn = read_ffn(in, config);
  config.heads = in.alike("attention.head_count", ShapeLimits::kHeads, 0, config.layers);
  config.kv_heads = read_kv_heads(in, config);
  if (config.heads < 1) in.fail(fmt::format("{} is missing", in.key("attention.head_count")));
  config.head_dim = in.size_or("attention.key_length", ShapeLimits::kHeadDim, config.hidden / config.heads);
  if (in.integer_if("attention.kv_lora_rank", 1, ShapeLimits::kHeadDim)) {
    read_latent_sizes(in, config);
  } else if (in.size_or("attention.value_length", ShapeLimits::kHeadDim, config.head_dim) != config.head_dim) {
    in.fail("keys and values of different length are not supported");
  }
  config.vocab = read_vocab(in);
  if (gguf_form_of(config).two_lists) read_second_list(in, config);
  config.context = in.model().integer(in.key("context_length"), 1, ShapeLimits::kContext);
  config.norm_eps = in.positive_if(gguf_form_of(config).norm_eps).value_or(1e-5);
}

}  // namespace

ModelSpec gguf_config(const GgufModel& model) {
  DecoderConfig config;
  read_family(model, config);
  const GgufForm& form = gguf_form_of(config);
  const GgufReader in(model, form.architecture);
  config.attention_bias = in.has_tensor("blk.0.attn_q.bias") || in.has_tensor("blk.0.attn_qkv.bias");
  read_sizes(in, config);
  if (experts_of(model, form.architecture) > 0) read_expert_sizes(in, config);
  config.tied_embeddings = !in.has_tensor(kHead);
  config.attention_out_bias = in.has_tensor("blk.0.attn_output.bias");
  config.mlp_bias = in.has_tensor("blk.0.ffn_up.bias");
  config.dtype = main_type(model);
  read_gguf_states(in, config);
  read_gguf_heads(in, config);
  checked_spec(config, model.where());  // what follows counts on the sizes
  read_gguf_rope(in, config);
  read_gguf_windows(in, config);
  if (form.read != nullptr) form.read(in, config);
  for (const GgufOption& option : gguf_options()) {
    if (option.read != nullptr) option.read(in, option.key, config);
  }
  read_tokens(model, config);
  ModelSpec spec = checked_spec(config, model.where());
  const std::optional<bool> causal = in.flag_if("attention.causal");
  if (causal && *causal == spec.encodes()) {
    model.fail(fmt::format("{} is {}, and such models are not supported", in.key("attention.causal"), *causal));
  }
  read_gguf_dense(in, spec);
  return spec;
}

}  // namespace kvasir
