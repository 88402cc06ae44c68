// MiniMax-M2: norms of all query heads, and of all key heads, together; rope over a part of each head; experts behind
// a sigmoid.
#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr ExpertNames kMinimaxExperts{.router = "block_sparse_moe.gate.weight",
                                      .choice = "block_sparse_moe.e_score_correction_bias",
                                      .gate = "block_sparse_moe.experts.{}.w1.weight",
                                      .up = "block_sparse_moe.experts.{}.w3.weight",
                                      .down = "block_sparse_moe.experts.{}.w2.weight"};

void read_minimax_m2(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  if (in.flag_or("use_qk_norm", true)) config.qk_norm = AttentionSpec::QkNorm::kWhole;
  const std::int64_t rotated = config_integer(in, "rotary_dim", {1, config.head_dim}, 0);
  if (rotated > 0) config.rope.rotated = static_cast<double>(rotated) / config.head_dim;
  read_experts(in, in.find("num_local_experts") ? "num_local_experts" : "num_experts", "num_experts_per_tok", config);
  config.moe.score = RouterRule::Score::kSigmoid;
  config.moe.normalized = true;
  config.moe.choice_bias = true;
}

constexpr std::array<std::string_view, 1> kMinimaxKnown{"expert_gating_func"};
constexpr std::array<std::string_view, 2> kMinimaxNeeded{"output.weight", "attn_q_norm.weight"};

void read_minimax_m2_gguf(const GgufReader& in, DecoderConfig& config) {
  if (in.has_tensor("blk.0.attn_q_norm.weight")) config.qk_norm = AttentionSpec::QkNorm::kWhole;
}

std::vector<TensorSpec> minimax_m2_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kAsStored, kMinimaxExperts);
}

}  // namespace

extern constexpr Family kMinimaxM2Family{.name = "minimax_m2",
                                         .also = "minimax",
                                         .gguf = {.architecture = "minimax-m2",
                                                  .moe = {.score = RouterRule::Score::kSigmoid, .normalized = true},
                                                  .known = kMinimaxKnown,
                                                  .needed = kMinimaxNeeded,
                                                  .read = read_minimax_m2_gguf},
                                         .experts = true,
                                         .read = read_minimax_m2,
                                         .spec = plain_decoder,
                                         .tensors = minimax_m2_tensors};

}  // namespace kvasir
