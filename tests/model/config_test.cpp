#include "model/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "config_texts.h"
#include "layout/kv_policy.h"
#include "layout/kv_view.h"

namespace kvasir {
namespace {

TEST(Config, ReadsSizesAndDefaults) {
  const ModelSpec config = parsed("");
  EXPECT_EQ(config.family_name(), "llama");
  EXPECT_EQ(config.layer_count(), 16);
  EXPECT_EQ(config.hidden, 2048);
  EXPECT_EQ(config.layers[0].mlp.width, 8192);
  EXPECT_EQ(config.attention(0).heads, 32);
  EXPECT_EQ(config.attention(0).kv.heads, 8);
  EXPECT_EQ(config.attention(0).kv.k_dim, 64);
  EXPECT_EQ(config.vocab, 128256);
  EXPECT_EQ(config.context, 131072);
  EXPECT_DOUBLE_EQ(config.norm_eps, 1e-6);
  EXPECT_FALSE(config.tied_embeddings || config.attention(0).qkv_bias || config.attention(0).out_bias ||
               config.layers[0].mlp.bias);
  EXPECT_EQ(config.dtype, DType::kBF16);
  EXPECT_EQ(config.ropes.at(0).scaling, RopeSpec::Scaling::kNone);
  EXPECT_DOUBLE_EQ(config.ropes.at(0).theta, 10000);
  EXPECT_EQ(windows_of(config), Windows(16, 0));
  EXPECT_TRUE(config.eos.empty() && config.quantization.empty());
  EXPECT_EQ(config.bos, -1);
}

TEST(Config, KvHeadsAndHeadDimMayBeNullOrOwn) {
  EXPECT_EQ(parsed(R"("num_key_value_heads":null)").attention(0).kv.heads, 32);
  EXPECT_EQ(parsed(R"("head_dim":null)").attention(0).kv.k_dim, 64);
  EXPECT_EQ(parsed(R"("head_dim":128)").attention(0).kv.k_dim, 128);
  const char* nemo = R"("head_dim":128,"hidden_size":5120)";
  EXPECT_EQ(parsed(nemo, kMistral).attention(0).kv.k_dim, 128);
}

TEST(Config, Flags) {
  EXPECT_TRUE(parsed(R"("tie_word_embeddings":true)").tied_embeddings);
  EXPECT_TRUE(parsed(R"("attention_bias":true)").attention(0).qkv_bias);
  EXPECT_TRUE(parsed(R"("mlp_bias":true)").layers.at(0).mlp.bias);
  EXPECT_TRUE(parsed("", kQwen2).attention(0).qkv_bias);
  EXPECT_TRUE(parsed("", kGpt2).tied_embeddings);
  EXPECT_TRUE(parsed("", kGpt2).layers.at(0).mlp.bias);
}

TEST(Config, DtypeOldAndNewKeyAndNone) {
  EXPECT_EQ(parsed(R"("torch_dtype":"float16")").dtype, DType::kF16);
  EXPECT_EQ(parsed(R"("dtype":"float32")").dtype, DType::kF32);
  EXPECT_EQ(parsed("", kGpt2).dtype, DType::kF32);
}

TEST(Config, EndAndBeginTokens) {
  EXPECT_EQ(parsed(R"("eos_token_id":2,"bos_token_id":1)").eos, std::vector<TokenId>{2});
  EXPECT_EQ(parsed(R"("eos_token_id":2,"bos_token_id":1)").bos, 1);
  EXPECT_EQ(parsed(R"("eos_token_id":[128001,128008,128009,128001])").eos,
            (std::vector<TokenId>{128001, 128008, 128009}));
  EXPECT_TRUE(parsed(R"("eos_token_id":null,"bos_token_id":null)").eos.empty());
  for (const char* none : {"-1", "128256", "9223372036854775807"}) {  // no model needs it, and files name any number
    EXPECT_EQ(parsed(fmt::format(R"("bos_token_id":{})", none)).bos, -1) << none;
  }
}

TEST(Config, RopeOldStyle) {
  const RopeSpec linear = parsed(R"("rope_theta":500000.0,"rope_scaling":{"type":"linear","factor":4})").ropes.at(0);
  EXPECT_EQ(linear.scaling, RopeSpec::Scaling::kLinear);
  EXPECT_DOUBLE_EQ(linear.theta, 500000);
  EXPECT_DOUBLE_EQ(linear.factor, 4);
  const RopeSpec llama3 = parsed(R"("rope_theta":500000,"rope_scaling":{"rope_type":"llama3","factor":32.0,
    "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192})")
                              .ropes.at(0);
  EXPECT_EQ(llama3.scaling, RopeSpec::Scaling::kLlama3);
  EXPECT_DOUBLE_EQ(llama3.factor, 32);
  EXPECT_EQ(llama3.original_context, 8192);
  EXPECT_EQ(parsed(R"("rope_scaling":null)").ropes.at(0).scaling, RopeSpec::Scaling::kNone);
}

TEST(Config, RopeNewStyle) {
  const RopeSpec plain = parsed(R"("rope_parameters":{"rope_theta":250000.0,"rope_type":"default"})").ropes.at(0);
  EXPECT_EQ(plain.scaling, RopeSpec::Scaling::kNone);
  EXPECT_DOUBLE_EQ(plain.theta, 250000);
  const RopeSpec keyed = parsed(R"("rope_parameters":{"full_attention":{"rope_type":"linear","factor":8.0,
    "rope_theta":1000000.0},"sliding_attention":{"rope_type":"default","rope_theta":10000.0}})")
                             .ropes.at(0);
  EXPECT_EQ(keyed.scaling, RopeSpec::Scaling::kLinear);
  EXPECT_DOUBLE_EQ(keyed.theta, 1e6);
  EXPECT_DOUBLE_EQ(keyed.factor, 8);
}

TEST(Config, OtherRopesLoadButDoNotRun) {
  const ModelSpec config = parsed(R"("rope_scaling":{"type":"spiral","factor":4.0})");
  EXPECT_EQ(config.ropes.at(0).scaling, RopeSpec::Scaling::kOther);
  EXPECT_EQ(config.ropes.at(0).other, "spiral");
  try {
    check_runnable(config, "config.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("spiral"), std::string::npos) << message;
    EXPECT_NE(message.find("supported: default, linear, dynamic, llama3"), std::string::npos) << message;
  }
}

TEST(Config, LongRopeIsSettledByTheContext) {
  const std::string head =
      R"("max_position_embeddings":4096,"original_max_position_embeddings":1024,"rope_scaling":)";
  const ModelSpec config = parsed(head + R"({"type":"su","long_factor":[2,3],"short_factor":[1,1]})");
  const RopeSpec& rope = config.ropes.at(0);
  EXPECT_EQ(rope.scaling, RopeSpec::Scaling::kLongRope);
  EXPECT_EQ(rope.original_context, 1024);
  EXPECT_DOUBLE_EQ(rope.magnitude, std::sqrt(1 + std::log(4.0) / std::log(1024.0)));
  EXPECT_EQ(for_context(config, 0).ropes.at(0).factors, (std::vector<float>{2, 3}));
  EXPECT_EQ(for_context(config, 1025).ropes.at(0).factors, (std::vector<float>{2, 3}));
  EXPECT_EQ(for_context(config, 1024).ropes.at(0).factors, (std::vector<float>{1, 1}));
  // Another context is another root of every key.
  EXPECT_NE(to_text(for_context(config, 1024)), to_text(for_context(config, 1025)));
}

TEST(Config, DynamicNtkIsSettledByTheContext) {
  const ModelSpec config =
      parsed(R"("max_position_embeddings":1024,"head_dim":8,"rope_scaling":{"type":"dynamic","factor":2.0})");
  EXPECT_DOUBLE_EQ(for_context(config, 0).ropes.at(0).theta, 10000);
  EXPECT_DOUBLE_EQ(for_context(config, 2048).ropes.at(0).theta, 10000 * std::pow(3.0, 8.0 / 6.0));
  EXPECT_EQ(for_context(config, 2048).context, 2048);
}

TEST(Config, WhatRunsToday) {
  EXPECT_NO_THROW(check_runnable(parsed(""), ""));
  EXPECT_NO_THROW(check_runnable(parsed("", kMistral), ""));
  EXPECT_NO_THROW(check_runnable(parsed("", kQwen2), ""));
  EXPECT_NO_THROW(check_runnable(parsed("", kGpt2), ""));
  EXPECT_NO_THROW(check_runnable(parsed(R"("partial_rotary_factor":0.5)"), ""));
  const ModelSpec quantized = parsed(R"("quantization_config":{"quant_method":"fp8"})");
  EXPECT_EQ(quantized.quantization, "fp8");
  EXPECT_NO_THROW(check_runnable(quantized, ""));  // whether its weights are read, their files say
}

TEST(Config, Gpt2Keys) {
  const ModelSpec config = parsed("", kGpt2);
  EXPECT_EQ(config.layers[0].mlp.width, 3072);
  EXPECT_EQ(config.attention(0).kv.heads, 12);
  EXPECT_EQ(config.attention(0).kv.k_dim, 64);
  EXPECT_EQ(config.context, 1024);
  EXPECT_DOUBLE_EQ(config.norm_eps, 1e-5);
  EXPECT_EQ(parameter_count(config), 124'439'808U);
  EXPECT_EQ(parsed(R"("n_inner":null)", kGpt2).layers.at(0).mlp.width, 3072);
  EXPECT_EQ(parsed(R"("n_inner":1000)", kGpt2).layers.at(0).mlp.width, 1000);
}

TEST(Config, BiasesAreCounted) {
  const std::uint64_t plain = parameter_count(parsed(""));
  EXPECT_EQ(parameter_count(parsed(R"("attention_bias":true)")) - plain, 16U * (2048 + 2 * 512 + 2048));
  EXPECT_EQ(parameter_count(parsed(R"("mlp_bias":true)")) - plain, 16U * (2 * 8192 + 2048));
}

struct Malformed {
  const char* more;  // put before the sizes of a llama, where it wins
  const char* expected;
};

TEST(Config, MalformedValuesAreNamed) {
  for (const Malformed& bad : std::vector<Malformed>{
           {R"("num_hidden_layers":0)", "num_hidden_layers is 0, outside 1..4096"},
           {R"("num_hidden_layers":-1)", "num_hidden_layers is -1, outside"},
           {R"("num_hidden_layers":4097)", "num_hidden_layers is 4097, outside"},
           {R"("num_hidden_layers":16.5)", "num_hidden_layers is not an integer"},
           {R"("num_hidden_layers":"16")", "num_hidden_layers is not an integer"},
           {R"("num_hidden_layers":[16])", "num_hidden_layers is not an integer"},
           {R"("num_hidden_layers":null)", "num_hidden_layers is missing"},
           {R"("num_hidden_layers":18446744073709551615)", "num_hidden_layers is not an integer"},
           {R"("hidden_size":1048577)", "hidden_size is 1048577, outside"},
           {R"("hidden_size":9223372036854775807)", "hidden_size is 9223372036854775807, outside"},
           {R"("intermediate_size":0)", "intermediate_size is 0"},
           {R"("vocab_size":16777217)", "vocab_size is 16777217, outside"},
           {R"("num_attention_heads":65537)", "num_attention_heads is 65537, outside"},
           {R"("num_attention_heads":48)", "48 heads do not divide the hidden size 2048"},
           {R"("num_key_value_heads":5)", "5 KV heads do not divide 32 heads"},
           {R"("num_key_value_heads":64)", "64 KV heads do not divide 32 heads"},
           {R"("head_dim":63)", "the head size 63 is odd"},
           {R"("head_dim":0)", "head_dim is 0, outside"},
           {R"("num_attention_heads":65536,"head_dim":16384,"num_key_value_heads":1)", "heads times head size is"},
           {R"("max_position_embeddings":0)", "max_position_embeddings is 0"},
           {R"("rms_norm_eps":0)", "rms_norm_eps is 0, and must be positive"},
           {R"("rms_norm_eps":-1e-5)", "must be positive"},
           {R"("rms_norm_eps":"1e-5")", "rms_norm_eps is not a number"},
           {R"("rope_theta":0)", "rope_theta is 0, and must be positive"},
           {R"("rope_scaling":"linear")", "rope_scaling is not an object"},
           {R"("rope_scaling":{"type":7})", "type is not a string"},
           {R"("rope_scaling":{"type":"linear"})", "config.json, rope_scaling: factor is missing"},
           {R"("rope_scaling":{"type":"linear","factor":0})", "factor is 0, and must be positive"},
           {R"("rope_scaling":{"type":"linear","factor":1e999})", "not valid JSON"},
           {R"("rope_scaling":{"rope_type":"llama3","factor":8})", "low_freq_factor is missing"},
           {R"("rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4,
               "original_max_position_embeddings":8192})",
            "high_freq_factor is not above low_freq_factor"},
           {R"("rope_parameters":[])", "rope_parameters is not an object"},
           {R"("rope_parameters":{"full_attention":3})", "full_attention is not an object"},
           {R"("partial_rotary_factor":1.5)", "partial_rotary_factor is 1.5, above 1"},
           {R"("hidden_act":"gelu")",
            "hidden_act 'gelu' is not supported; models of this family are supported with silu"},
           {R"("hidden_act":3)", "hidden_act is not a string"},
           {R"("tie_word_embeddings":1)", "tie_word_embeddings is not true or false"},
           {R"("attention_bias":"no")", "attention_bias is not true or false"},
           {R"("dtype":"float8_e4m3fn")", "dtype 'float8_e4m3fn' is not supported; supported: bfloat16"},
           {R"("dtype":16)", "dtype is not a string"},
           {R"("eos_token_id":128256)", "eos_token_id is 128256, outside 0..128255"},
           {R"("eos_token_id":[-1])", "eos_token_id[0] is -1, outside"},
           {R"("eos_token_id":["</s>"])", "eos_token_id[0] is not an integer"},
           {R"("bos_token_id":true)", "bos_token_id is not an integer"},
           {R"("quantization_config":7)", "quantization_config is not an object"},
           {R"("text_config":[])", "text_config is not an object"},
           {R"("model_type":"mamba")", "model_type 'mamba' is not known; known are llama, mistral"},
           {R"("model_type":null)", "model_type is missing"},
           {R"("model_type":42)", "model_type is not a string"}}) {
    const std::string message = error_of_config(fmt::format("{{{},{}}}", bad.more, kLlama));
    EXPECT_NE(message.find(bad.expected), std::string::npos) << bad.more << "\n  gave: " << message;
    EXPECT_EQ(message.rfind("config.json", 0), 0U) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Config, HostileJson) {
  for (const char* json : {"", " ", "{", "}", "[]", "null", "7", "\"x\"", "{\"model_type\":", "{]", "\xff\xfe",
                           "{\"model_type\":\"llama\"}", "{\"model_type\":\"\\u0000\\ud800\"}", "{}{}"}) {
    EXPECT_NE(error_of_config(json), "no error") << json;
  }
  EXPECT_NE(error_of_config(std::string(100000, '[')).find("not valid JSON"), std::string::npos);
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "{\"text_config\":";
  EXPECT_NE(error_of_config(deep).find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of_config(std::string((16 << 20) + 1, ' ')).find("more than the 16777216"), std::string::npos);
  EXPECT_EQ(error_of_config("{\"model_type\":\"a\\nb\"}").find('\n'), std::string::npos);
}

TEST(Config, TheLargestSizesDoNotWrap) {
  const std::string huge = R"({"model_type":"llama","num_hidden_layers":4096,"hidden_size":1048576,
    "intermediate_size":4194304,"num_attention_heads":1024,"head_dim":16384,"vocab_size":16777216,
    "max_position_embeddings":1099511627776})";
  // The largest that is believed: nothing wraps.
  const ModelSpec config = parse_config(huge, "config.json");
  EXPECT_GT(parameter_count(config), std::uint64_t{1} << 50);
  EXPECT_LT(parameter_count(config), std::uint64_t{1} << 62);
}

class ConfigFiles : public ::testing::Test {
 protected:
  ConfigFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvasir-config-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ConfigFiles() override { std::filesystem::remove_all(folder_); }

  void write(const char* name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  std::string load_error() const {
    try {
      load_config(folder_);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

TEST_F(ConfigFiles, FolderOrFileAndGenerationConfig) {
  write("config.json", fmt::format(R"({{"eos_token_id":2,{}}})", kLlama));
  EXPECT_EQ(load_config(folder_).eos, std::vector<TokenId>{2});
  write("generation_config.json", R"({"eos_token_id":[2,7]})");
  EXPECT_EQ(load_config(folder_).eos, (std::vector<TokenId>{2, 7}));
  EXPECT_EQ(load_config(folder_ / "config.json").layer_count(), 16);
}

TEST_F(ConfigFiles, ErrorsNameTheFile) {
  EXPECT_NE(load_error().find("no config.json"), std::string::npos);
  write("config.json", fmt::format("{{{}}}", kLlama));
  EXPECT_EQ(load_error(), "no error");
  write("generation_config.json", R"({"eos_token_id":"x"})");
  EXPECT_NE(load_error().find("generation_config.json: eos_token_id is not an integer"), std::string::npos);
  write("config.json", "");
  EXPECT_NE(load_error().find("empty"), std::string::npos);
  EXPECT_THROW(load_config(folder_ / "nothing.json"), Error);
}

TEST(Config, TheModelsThatShip) {
  const std::filesystem::path models = std::filesystem::path(KVASIR_SOURCE_DIR) / "models";
  const ModelSpec tales = load_config(models / "tales");
  EXPECT_EQ(parameter_count(tales), 18'882'432U);
  EXPECT_EQ(tales.eos, (std::vector<TokenId>{0, 3}));
  EXPECT_EQ(tales.bos, 0);
  EXPECT_TRUE(tales.tied_embeddings);
  EXPECT_EQ(tales.dtype, DType::kBF16);
  EXPECT_NO_THROW(check_runnable(tales, "tales"));
  EXPECT_EQ(parameter_count(load_config(models / "tales-draft")), 2'360'256U);
}

}  // namespace
}  // namespace kvasir
