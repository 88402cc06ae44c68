// What configs of hybrids say: which layers have which branches, and what is refused by name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/config.h"

namespace kvasir {
namespace {

constexpr const char* kNemotron = R"("model_type":"nemotron_h","num_hidden_layers":4,"hidden_size":64,
  "intermediate_size":96,"hybrid_override_pattern":"ME*-","num_attention_heads":4,"num_key_value_heads":2,
  "head_dim":16,"vocab_size":100,"max_position_embeddings":128,"mamba_num_heads":8,"mamba_head_dim":16,
  "ssm_state_size":16,"n_groups":2,"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":24,
  "moe_shared_expert_intermediate_size":40)";
constexpr const char* kFalcon = R"("model_type":"falcon_h1","num_hidden_layers":2,"hidden_size":64,
  "intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"vocab_size":100,
  "max_position_embeddings":128,"mamba_d_ssm":96,"mamba_n_heads":8,"mamba_d_state":16,"mamba_n_groups":2)";
constexpr const char* kKimi = R"("model_type":"kimi_linear","num_hidden_layers":3,"hidden_size":64,
  "intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":4,"vocab_size":100,"model_max_length":128,
  "kv_lora_rank":16,"qk_nope_head_dim":8,"qk_rope_head_dim":4,"v_head_dim":8,"mla_use_nope":true,
  "num_experts":8,"num_experts_per_token":2,"moe_intermediate_size":24,"num_shared_experts":1)";
constexpr const char* kKimiLayers = R"("linear_attn_config":{"kda_layers":[1,3],"full_attn_layers":[2],"num_heads":4,
  "head_dim":16,"short_conv_kernel_size":4})";

ModelSpec parsed_hybrid(const std::string& more, const char* sizes) {  // the first of two equal keys counts
  return parse_config(fmt::format("{{{}{}{}}}", more, more.empty() ? "" : ",", sizes), "config.json");
}

std::string error_of_hybrid(const std::string& more, const char* sizes) {
  try {
    parsed_hybrid(more, sizes);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A letter a layer: M a state, * attention, B both; then E experts, - an MLP.
std::string branches_of(const ModelSpec& spec) {
  std::string out;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.mixes()) out += layer.recurrent.none() ? '*' : layer.attention.none() ? 'M' : 'B';
    if (layer.feeds()) out += layer.mlp.moe.experts > 0 ? 'E' : '-';
  }
  return out;
}

TEST(HybridConfigs, LayersHaveTheBranchesThatTheirPatternSays) {
  const ModelSpec nemotron = parsed_hybrid("", kNemotron);
  EXPECT_EQ(branches_of(nemotron), "ME*-");
  EXPECT_EQ(branches_of(parsed_hybrid(R"("layers_block_type":["mlp","attention","mamba","moe","moe"])", kNemotron)),
            "-*MEE");
  EXPECT_EQ(branches_of(parsed_hybrid("", kFalcon)), "B-B-");
  EXPECT_EQ(branches_of(parsed_hybrid(kKimiLayers, kKimi)), "ME*EME");
  EXPECT_EQ(branches_of(parsed_hybrid(fmt::format("{},\"first_k_dense_replace\":1", kKimiLayers), kKimi)), "M-*EME");
  for (const LayerSpec& layer : nemotron.layers) {
    EXPECT_EQ(layer.attention.rope, kNoRope);
    EXPECT_TRUE(!layer.feeds() || layer.mlp.kind == MlpSpec::Kind::kPlain);
  }
}

TEST(HybridConfigs, MultipliersOfAttentionBecomeScalesOfScoresAndOutputs) {
  const ModelSpec spec = parsed_hybrid(
      R"("attention_in_multiplier":2,"key_multiplier":0.5,"attention_out_multiplier":3,"ssm_in_multiplier":2,
         "ssm_multipliers":[1,2,3,4,5],"mlp_multipliers":[0.5,0.25],"lm_head_multiplier":0.125)",
      kFalcon);
  const LayerSpec& layer = spec.layers.front();
  EXPECT_FLOAT_EQ(layer.attention.scale, 2 * 2 * 0.5F / 4);
  EXPECT_FLOAT_EQ(layer.attention.out_scale, 6);
  EXPECT_EQ(layer.recurrent.in_scales, (std::array<float, 5>{2, 4, 6, 8, 10}));
  EXPECT_FLOAT_EQ(layer.mlp.gate_scale, 0.5);
  EXPECT_FLOAT_EQ(layer.mlp.out_scale, 0.25);
  EXPECT_FLOAT_EQ(spec.logit_scale, 0.125);
}

TEST(HybridConfigs, LimitsOfStepsInEverySpellingOfInfinity) {
  for (const char* most : {"Infinity", "\"Infinity\"", R"({"__float__":"Infinity"})"}) {
    const ModelSpec spec = parsed_hybrid(fmt::format(R"("time_step_limit":[0.25,{}])", most), kNemotron);
    EXPECT_EQ(spec.layers.front().recurrent.least_step, 0.25F) << most;
    EXPECT_EQ(spec.layers.front().recurrent.most_step, std::numeric_limits<float>::infinity()) << most;
  }
  EXPECT_EQ(parsed_hybrid(R"("time_step_limit":[0,1e30])", kNemotron).layers.front().recurrent.most_step, 1e30F);
}

// Each constant is in the text that names blocks.
TEST(HybridConfigs, WhatIsComputedNamesBlocks) {
  const std::string plain = to_text(parsed_hybrid("", kFalcon));
  for (const char* more :
       {R"("key_multiplier":0.5)", R"("attention_out_multiplier":0.5)", R"("mlp_multipliers":[1,0.5])",
        R"("mlp_multipliers":[0.5,1])", R"("ssm_out_multiplier":0.5)", R"("ssm_multipliers":[1,1,1,1,0.5])",
        R"("time_step_limit":[0.1,1e30])", R"("mamba_rms_norm":true)"}) {
    EXPECT_NE(to_text(parsed_hybrid(more, kFalcon)), plain) << more;
  }
  EXPECT_NE(to_text(parsed_hybrid(R"("moe_latent_size":12)", kNemotron)), to_text(parsed_hybrid("", kNemotron)));
}

TEST(HybridConfigs, WhatIsNotComputedEndsInOneLineWithFieldAndValue) {
  struct Case {
    std::string more;
    const char* sizes;
    const char* says;
  };
  const std::string kimi = std::string(kKimiLayers) + ",";
  const std::vector<Case> cases{
      {R"("hybrid_override_pattern":"MX*-")", kNemotron, "hybrid_override_pattern has a 'X'"},
      {R"("hybrid_override_pattern":"M*-")", kNemotron, "3 layers, and num_hidden_layers is 4"},
      {R"("layers_block_type":["mamba","dense"])", kNemotron, "layers_block_type[1] is 'dense'"},
      {R"("layers_block_type":[])", kNemotron, "layers_block_type has 0 entries"},
      {R"("hybrid_override_pattern":"MMMM")", kNemotron, "no layer has attention"},
      {R"("mlp_hidden_act":"softsign")", kNemotron, "mlp_hidden_act 'softsign'"},
      {R"("use_bias":true)", kNemotron, "use_bias is true"},
      {R"("n_groups":3)", kNemotron, "3 key heads do not divide 8"},
      {R"("ssm_state_size":512)", kNemotron, "ssm_state_size is 512"},
      {R"("time_step_limit":[2,1])", kNemotron, "time_step_limit is 2 to 1"},
      {R"("time_step_limit":[0,"x"])", kNemotron, "time_step_limit[1] is neither"},
      {R"("time_step_limit":[0])", kNemotron, "time_step_limit is not two numbers"},
      {R"("sliding_window":64)", kNemotron, "sliding_window is not supported"},
      {R"("attention_bias":true)", kFalcon, "attention_bias is true"},
      {R"("projectors_bias":true)", kFalcon, "projectors_bias is true"},
      {R"("ssm_multipliers":[1,1])", kFalcon, "ssm_multipliers has 2 numbers, not 5"},
      {R"("key_multiplier":-1)", kFalcon, "key_multiplier"},
      {R"("mamba_d_head":16)", kFalcon, "mamba_d_head is not the 96 numbers of 8 heads"},
      {R"("mamba_n_heads":7)", kFalcon, "mamba_n_heads do not divide"},
      {kimi + R"("mla_use_nope":false)", kKimi, "mla_use_nope is false"},
      {kimi + R"("moe_router_activation_func":"tanh")", kKimi, "moe_router_activation_func is 'tanh'"},
      {kimi + R"("num_expert_group":3)", kKimi, "8 experts in 3 groups"},
      {"", kKimi, "linear_attn_config"},
      {R"("linear_attn_config":{"kda_layers":[1],"full_attn_layers":[2],"num_heads":4,"head_dim":16,
          "short_conv_kernel_size":4})",
       kKimi, "layer 3 is neither"},
      {R"("linear_attn_config":{"kda_layers":[1,2,3],"full_attn_layers":[2],"num_heads":4,"head_dim":16,
          "short_conv_kernel_size":4})",
       kKimi, "full_attn_layers[0] is listed twice"},
      {R"("linear_attn_config":{"kda_layers":[1,3],"full_attn_layers":[2],"num_heads":4,"head_dim":16,
          "short_conv_kernel_size":4,"gate_lower_bound":-5.0})",
       kKimi, "gate_lower_bound is not supported"}};
  for (const Case& one : cases) {
    const std::string message = error_of_hybrid(one.more, one.sizes);
    EXPECT_NE(message.find(one.says), std::string::npos) << one.says << " is not in: " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace kvasir
