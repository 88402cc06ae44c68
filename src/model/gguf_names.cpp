#include "model/gguf_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace kvasir {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;  // Hugging Face's name, GGUF's

constexpr std::array<Pair, 3> kEnds{{{LlamaTensors::kEmbedding, "token_embd.weight"},
                                     {LlamaTensors::kFinalNorm, "output_norm.weight"},
                                     {LlamaTensors::kHead, "output.weight"}}};

// Within a layer, without ".weight" or ".bias".
constexpr std::array<Pair, 9> kInLayer{{{"input_layernorm", "attn_norm"},
                                        {"self_attn.q_proj", "attn_q"},
                                        {"self_attn.k_proj", "attn_k"},
                                        {"self_attn.v_proj", "attn_v"},
                                        {"self_attn.o_proj", "attn_output"},
                                        {"post_attention_layernorm", "ffn_norm"},
                                        {"mlp.gate_proj", "ffn_gate"},
                                        {"mlp.up_proj", "ffn_up"},
                                        {"mlp.down_proj", "ffn_down"}}};

constexpr std::string_view kLayer = "model.layers.";

bool is_norm(std::string_view name) { return name.ends_with("layernorm"); }

}  // namespace

std::string gguf_name_of(std::string_view name) {
  const auto* end = std::ranges::find(kEnds, name, &Pair::first);
  if (end != kEnds.end()) return std::string(end->second);
  if (!name.starts_with(kLayer)) return {};
  const std::string_view rest = name.substr(kLayer.size());
  const size_t first_dot = rest.find('.');
  const size_t last_dot = rest.rfind('.');
  if (first_dot == std::string_view::npos || first_dot == last_dot) return {};
  const std::string_view within = rest.substr(first_dot + 1, last_dot - first_dot - 1);
  const auto* found = std::ranges::find(kInLayer, within, &Pair::first);
  if (found == kInLayer.end()) return {};
  return fmt::format("blk.{}.{}{}", rest.substr(0, first_dot), found->second, rest.substr(last_dot));
}

RotatedRows rotated_rows(std::string_view name) {
  if (name.find(".q_proj.") != std::string_view::npos) return RotatedRows::kQueries;
  if (name.find(".k_proj.") != std::string_view::npos) return RotatedRows::kKeys;
  return RotatedRows::kNone;
}

std::vector<std::string> LlamaTensors::of_layer(int layer) {
  std::vector<std::string> names;
  for (const auto& [name, unused] : kInLayer) {
    names.push_back(fmt::format("{}{}.{}.weight", kLayer, layer, name));
    if (!is_norm(name)) names.push_back(fmt::format("{}{}.{}.bias", kLayer, layer, name));
  }
  return names;
}

}  // namespace kvasir
