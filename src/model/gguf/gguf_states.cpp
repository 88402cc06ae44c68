#include "model/gguf/gguf_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace kvasir {
namespace {

using Kind = RecurrentSpec::Kind;
using Layers = GgufStates::Layers;

constexpr std::string_view kInterval = "full_attention_interval";
constexpr std::string_view kListed = "attention.recurrent_layers";
constexpr std::string_view kKvHeads = "attention.head_count_kv";
constexpr std::string_view kFfn = "feed_forward_length";

// Which layers: those without heads for keys, or all but each so-many-th, or a flag for each.
std::vector<int> layers_with_states(const GgufReader& in, const DecoderConfig& config, Layers how) {
  constexpr std::int64_t kUsualInterval = 4;
  std::vector<int> out;
  const auto heads = in.per_layer(kKvHeads, {0, ShapeLimits::kHeads}, config.layers);
  const auto ffn = in.per_layer(kFfn, {0, ShapeLimits::kFfn}, config.layers);
  const auto listed = in.per_layer(kListed, {0, 1}, config.layers);
  const std::int64_t every = in.integer_if(kInterval, 1, ShapeLimits::kLayers).value_or(kUsualInterval);
  for (int layer = 0; layer < config.layers; ++layer) {
    const auto i = static_cast<size_t>(layer);
    bool recurs = listed ? (*listed)[i] != 0 : (layer + 1) % every != 0;
    if (how == Layers::kBeside) recurs = true;
    if (how == Layers::kWithoutKvHeads) recurs = heads && (*heads)[i] == 0;
    if (how == Layers::kOneBranch) recurs = heads && (*heads)[i] == 0 && ffn && (*ffn)[i] == 0;
    if (recurs) out.push_back(layer);
  }
  return out;
}

// A layer has an MLP, or mixes tokens.
void read_branches(const GgufReader& in, DecoderConfig& config) {
  const auto ffn = in.per_layer(kFfn, {0, ShapeLimits::kFfn}, config.layers);
  for (int layer = 0; layer < config.layers; ++layer) {
    const bool feeds = ffn && (*ffn)[static_cast<size_t>(layer)] > 0;
    (feeds ? config.unmixed_layers : config.unfed_layers).push_back(layer);
  }
}

// Heads of Kimi Delta Attention are as many as queries have, and all of one size.
void read_kda_heads(const GgufReader& in, const DecoderConfig& config, RecurrentSpec& recurrent) {
  recurrent.conv_weights = in.size("ssm.conv_kernel", kMostConvWeights);
  recurrent.heads = recurrent.k_heads = config.heads;
  recurrent.k_dim = recurrent.v_dim = recurrent.gate_rank = in.size("kda.head_dim", kMostStateRows);
}

// Else all orders are one.
bool in_several_groups(const RecurrentSpec& recurrent) {
  return recurrent.k_heads > 1 && recurrent.heads != recurrent.k_heads;
}

// Heads of a state share what the inner size is.
void read_heads(const GgufReader& in, RecurrentSpec& recurrent) {
  recurrent.conv_weights = in.size("ssm.conv_kernel", kMostConvWeights);
  recurrent.k_dim = in.size("ssm.state_size", kMostStateRows);
  recurrent.k_heads = in.size("ssm.group_count", ShapeLimits::kHeads);
  recurrent.heads = in.size("ssm.time_step_rank", ShapeLimits::kHeads);
  const int inner = in.size("ssm.inner_size", ShapeLimits::kHidden);
  if (inner % recurrent.heads != 0 || recurrent.heads % recurrent.k_heads != 0) {
    in.fail(fmt::format("{} numbers in {} heads of {} groups are not supported", inner, recurrent.heads,
                        recurrent.k_heads));
  }
  recurrent.v_dim = inner / recurrent.heads;
  if (recurrent.kind == Kind::kMamba2) recurrent.norm_stage = RecurrentSpec::NormStage::kBehindGate;
}

// The interval that says which layers have states; none: it takes a list.
std::optional<std::uint32_t> interval_of(const ModelSpec& spec) {
  for (int every = 1; every <= spec.layer_count() + 1; ++every) {
    int i = 0;
    const bool fits = std::ranges::all_of(
        spec.layers, [&](const LayerSpec& one) { return one.recurrent.none() == (++i % every == 0); });
    if (fits) return static_cast<std::uint32_t>(every);
  }
  return std::nullopt;
}

// What a tensor of a state is called behind "blk.N.", and where in it the part lies; empty: the role has none.
struct StateName {
  TensorRole role;
  std::string_view weight;
  std::string_view bias = {};
};
using enum TensorRole;
constexpr std::array kDeltaNames{StateName{kStateQ, "attn_qkv.weight"},
                                 StateName{kStateK, "attn_qkv.weight"},
                                 StateName{kStateV, "attn_qkv.weight"},
                                 StateName{kStateGate, "attn_gate.weight"},
                                 StateName{kStateStrength, "ssm_beta.weight"},
                                 StateName{kStateDecay, "ssm_alpha.weight"},
                                 StateName{kStateConv, "ssm_conv1d.weight", "ssm_conv1d.bias"},
                                 StateName{kStateStepBias, "ssm_dt.bias"},
                                 StateName{kStateRate, "ssm_a"},
                                 StateName{kStateNorm, "ssm_norm.weight"},
                                 StateName{kStateOut, "ssm_out.weight"}};
constexpr std::array kMambaNames{
    StateName{kStateGate, "ssm_in.weight"},   StateName{kStateV, "ssm_in.weight"},
    StateName{kStateK, "ssm_in.weight"},      StateName{kStateQ, "ssm_in.weight"},
    StateName{kStateDecay, "ssm_in.weight"},  StateName{kStateConv, "ssm_conv1d.weight", "ssm_conv1d.bias"},
    StateName{kStateStepBias, "ssm_dt.bias"}, StateName{kStateRate, "ssm_a"},
    StateName{kStateSkip, "ssm_d"},           StateName{kStateNorm, "ssm_norm.weight"},
    StateName{kStateOut, "ssm_out.weight"}};
constexpr std::array kShortConvNames{StateName{kStateQ, "shortconv.in_proj.weight"},
                                     StateName{kStateGate, "shortconv.in_proj.weight"},
                                     StateName{kStateV, "shortconv.in_proj.weight"},
                                     StateName{kStateConv, "shortconv.conv.weight", "shortconv.conv.bias"},
                                     StateName{kStateOut, "shortconv.out_proj.weight"}};
constexpr std::array kKdaNames{StateName{kStateQ, "attn_q.weight"},
                               StateName{kStateK, "attn_k.weight"},
                               StateName{kStateV, "attn_v.weight"},
                               StateName{kStateConvQ, "ssm_conv1d_q.weight"},
                               StateName{kStateConvK, "ssm_conv1d_k.weight"},
                               StateName{kStateConvV, "ssm_conv1d_v.weight"},
                               StateName{kStateDecayIn, "ssm_f_a.weight"},
                               StateName{kStateDecayOut, "ssm_f_b.weight"},
                               StateName{kStateGateIn, "ssm_g_a.weight"},
                               StateName{kStateGateOut, "ssm_g_b.weight"},
                               StateName{kStateStrength, "ssm_beta.weight"},
                               StateName{kStateStepBias, "ssm_dt.bias"},
                               StateName{kStateRate, "ssm_a"},
                               StateName{kStateNorm, "ssm_norm.weight"},
                               StateName{kStateOut, "attn_output.weight"}};
constexpr std::string_view kStrengthsAndDecays = "ssm_ba.weight";  // of each key head its own, one behind the other
constexpr std::string_view kAllByKeyHead = "ssm_in.weight";        // likewise; older files have it

std::span<const StateName> names_of(Kind kind) {
  if (kind == Kind::kDeltaNet) return kDeltaNames;
  if (kind == Kind::kMamba2) return kMambaNames;
  if (kind == Kind::kKda) return kKdaNames;
  return kind == Kind::kShortConv ? std::span<const StateName>(kShortConvNames) : std::span<const StateName>();
}

// Queries, keys and values lie one below the other, whatever a folder's order is.
RowSlice part_of_qkv(const RecurrentSpec& r, TensorRole role) {
  const std::int64_t all = r.conv_channels();
  if (role == kStateV) return {all, 2 * std::int64_t{r.k_width()}, r.v_width(), r.v_width()};
  return {all, role == kStateQ ? 0 : r.k_width(), r.k_width(), r.k_width()};
}

// The heads of a state's values lie in another order in files whose architecture has them so.
void tile_heads(const RecurrentSpec& r, TensorSpec& tensor) {
  HeadTiles tiles{r.k_heads, r.heads, 1, 0, HeadTiles::Of::kRows};
  switch (tensor.role) {
    case kStateV:
    case kStateGate:
      tiles.width = r.v_dim;
      break;
    case kStateConv:
      tiles.width = r.v_dim;
      tiles.first = 2 * r.k_width();
      break;
    case kStateOut:
      tiles.width = r.v_dim;
      tiles.of = HeadTiles::Of::kColumns;
      break;
    case kStateStrength:
    case kStateDecay:
    case kStateStepBias:
    case kStateRate:
      break;
    default:
      return;
  }
  tensor.gguf_tiles = tiles;
}

void name_delta_part(const RecurrentSpec& r, const std::string& layer, TensorSpec& tensor) {
  const bool joined = tensor.role == kStateQ || tensor.role == kStateK || tensor.role == kStateV;
  if (joined) tensor.gguf_at.slice = part_of_qkv(r, tensor.role);
  if (r.packing != RecurrentSpec::Packing::kByKeyHead) return;
  const bool of_heads = tensor.role == kStateStrength || tensor.role == kStateDecay;
  if (of_heads) {
    tensor.gguf = layer + std::string(kStrengthsAndDecays);
    tensor.gguf_at.slice = tensor.hf.slice;
  } else if (joined || tensor.role == kStateGate) {
    FilePlace older;
    older.name = layer + std::string(kAllByKeyHead);
    older.slice = tensor.hf.slice;
    tensor.gguf_else.push_back(std::move(older));
  }
}

void name_state_tensor(const ModelSpec& spec, TensorSpec& tensor) {
  const RecurrentSpec& r = spec.layers[static_cast<size_t>(tensor.layer)].recurrent;
  const std::span<const StateName> names = names_of(r.kind);
  const auto found = std::ranges::find(names, tensor.role, &StateName::role);
  if (found == names.end()) return;
  const std::string layer = fmt::format("blk.{}.", tensor.layer);
  tensor.gguf = layer + std::string(tensor.bias ? found->bias : found->weight);
  tensor.gguf_negated_exp = tensor.role == kStateRate;
  if (r.kind == Kind::kDeltaNet) {
    name_delta_part(r, layer, tensor);
    const bool tiled = gguf_form_of(spec).states.heads == RecurrentSpec::Heads::kTiled;
    if (tiled && r.value_heads == RecurrentSpec::Heads::kGrouped && in_several_groups(r)) tile_heads(r, tensor);
    return;
  }
  tensor.gguf_at.slice = tensor.hf.slice;
  if (r.kind == Kind::kKda) tensor.gguf_at.channels = tensor.hf.channels;
  if (r.kind != Kind::kMamba2 && r.kind != Kind::kKda) return;
  // llama.cpp wants these as matrices.
  if (tensor.role == kStateRate || tensor.role == kStateSkip) tensor.gguf_vector_cols = 1;
  if (tensor.role == kStateNorm && r.kind == Kind::kMamba2) tensor.gguf_vector_cols = r.v_width() / r.k_heads;
}

}  // namespace

void read_gguf_states(const GgufReader& in, DecoderConfig& config) {
  const GgufStates& form = gguf_form_of(config).states;
  if (form.layers == Layers::kNone) return;
  RecurrentSpec& recurrent = config.recurrent;
  recurrent.kind = form.kind;
  recurrent.packing = form.packing;
  config.recurrent_layers = layers_with_states(in, config, form.layers);
  config.side_by_side = form.layers == Layers::kBeside;
  if (form.layers == Layers::kOneBranch) read_branches(in, config);
  if (form.kind == Kind::kShortConv) {
    recurrent.heads = 1;
    recurrent.v_dim = config.hidden;
    recurrent.conv_weights = in.size("shortconv.l_cache", kMostConvWeights);
  } else if (form.kind == Kind::kKda) {
    read_kda_heads(in, config, recurrent);
  } else {
    read_heads(in, recurrent);
  }
  if (form.norms == GgufStates::Norms::kByGroup) recurrent.norm_groups = recurrent.k_heads;
  if (in_several_groups(recurrent)) recurrent.value_heads = form.heads;
  if (config.recurrent_layers.empty()) return;
  const std::string first = fmt::format("blk.{}.", config.recurrent_layers.front());
  recurrent.conv_bias = in.has_tensor(first + "ssm_conv1d.bias") || in.has_tensor(first + "shortconv.conv.bias");
}

std::vector<GgufOutKey> gguf_states_of(const ModelSpec& spec) {
  std::vector<GgufOutKey> out;
  const GgufStates& form = gguf_form_of(spec).states;
  const auto found = std::ranges::find_if(spec.layers, [](const LayerSpec& one) { return !one.recurrent.none(); });
  if (form.layers == Layers::kNone) return out;
  const auto say = [&out](std::string_view key, std::int64_t value) {
    out.push_back({std::string(key), static_cast<std::uint32_t>(value)});
  };
  const RecurrentSpec recurrent = found == spec.layers.end() ? RecurrentSpec{} : found->recurrent;
  if (form.layers == Layers::kByInterval) {
    if (const auto every = interval_of(spec)) {
      say(kInterval, *every);
    } else {
      GgufBools flags;
      for (const LayerSpec& one : spec.layers) flags.values.push_back(one.recurrent.none() ? 0 : 1);
      out.push_back({std::string(kListed), std::move(flags)});
    }
  }
  if (form.kind == Kind::kShortConv) {
    say("shortconv.l_cache", recurrent.conv_weights);
    return out;
  }
  say("ssm.conv_kernel", recurrent.conv_weights);
  if (form.kind == Kind::kKda) {
    say("kda.head_dim", recurrent.k_dim);
    return out;
  }
  say("ssm.state_size", recurrent.k_dim);
  say("ssm.group_count", recurrent.k_heads);
  say("ssm.time_step_rank", recurrent.heads);
  say("ssm.inner_size", recurrent.v_width());
  return out;
}

void name_state_tensors(const ModelSpec& spec, std::vector<TensorSpec>& tensors) {
  if (gguf_form_of(spec).states.layers == Layers::kNone) return;
  for (TensorSpec& tensor : tensors) {
    if (tensor.layer < 0) continue;
    const LayerSpec& layer = spec.layers[static_cast<size_t>(tensor.layer)];
    if (!layer.recurrent.none()) name_state_tensor(spec, tensor);
    if (!layer.attention.out_gate || (tensor.role != kQ && tensor.role != kOutGate)) continue;
    tensor.gguf = fmt::format("blk.{}.attn_q.weight", tensor.layer);  // of each head its queries and its gates
    tensor.gguf_at.slice = tensor.hf.slice;
    tensor.gguf_else.clear();
  }
}

}  // namespace kvasir
