// Models whose attention has a rule of its own: what is loaded for it, what it changes, and which KV policies it
// refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "backend/make_backend.h"
#include "base/error.h"
#include "model/position_bias.h"
#include "model/tensors.h"
#include "support/forward.h"
#include "support/random_data.h"
#include "support/rule_models.h"

namespace kvasir::testing {
namespace {

std::vector<TokenId> some_text() {
  std::vector<TokenId> out;
  for (int i = 0; i < 70; ++i) out.push_back(static_cast<TokenId>(mix(3, static_cast<std::uint64_t>(i), 1) % 101));
  return out;
}

TEST(ScoreRules, EveryModelGivesOnTheCpuWhatItGivesOnRef) {
  for (const std::string_view name : kRuleModels) {
    std::vector<float> want;
    for (const char* device : {"ref", "cpu"}) {
      const auto backend = make_backend({device, 2, "auto", ActivationPrecision::kF32});
      const auto model = make_random_model(rule_model(name, {24, 0}), *backend, {}, 1);
      const std::vector<float> got = forward(*model, *backend, some_text());
      if (want.empty()) want = got;
      EXPECT_LT(relative_error(got, want), 2e-5) << device << " " << name;
    }
  }
}

// A rule that were not passed on would change nothing.
TEST(ScoreRules, EachPartOfARuleChangesTheLogits) {
  const auto backend = make_backend({"cpu", 2, "auto", ActivationPrecision::kF32});
  const auto logits = [&](const ModelSpec& spec) {
    return forward(*make_random_model(spec, *backend, {}, 1), *backend, some_text());
  };
  const auto without = [](std::string_view name, const std::function<void(AttentionSpec&)>& change) {
    ModelSpec spec = rule_model(name, {24, 0});
    for (LayerSpec& layer : spec.layers) change(layer.attention);
    return spec;
  };
  const std::vector<std::pair<std::string_view, std::function<void(AttentionSpec&)>>> cases{
      {"gemma2", [](AttentionSpec& a) { a.softcap = 0; }},
      {"sink_logits", [](AttentionSpec& a) { a.sink_logits = false; }},
      {"chunked", [](AttentionSpec& a) { a.chunk = 0; }},
      {"bloom", [](AttentionSpec& a) { a.bias = {}; }},
      {"t5", [](AttentionSpec& a) { a.bias = {}; }},
      {"latent", [](AttentionSpec& a) { a.kv.v_in_k = 0; }}};
  for (const auto& [name, change] : cases) {
    const std::vector<float> with = logits(rule_model(name, {24, 0}));
    EXPECT_GT(relative_error(logits(without(name, change)), with), 1e-4) << name;
  }
}

// Recent rows apart, and a window beside its sinks, are parts that merge: the learned sink counts in one of them.
TEST(ScoreRules, LearnedSinksCountOnceInEveryPolicy) {
  for (const char* device : {"ref", "cpu"}) {
    const auto backend = make_backend({device, 2, "auto", ActivationPrecision::kF32});
    const auto model = make_random_model(rule_model("sink_logits"), *backend, {}, 1);
    const std::vector<float> whole = forward(*model, *backend, some_text());
    for (const char* policy : {"k=f32, v=f16, recent=20:f32", "k=f32, v=f16, recent=20:f32, sinks=4"}) {
      const std::vector<float> parts = forward(*model, *backend, some_text(), parse_kv_policy(policy, "test"));
      EXPECT_LT(relative_error(parts, whole), 1e-3) << device << " " << policy;  // f16 alone is as far
    }
    // A window beyond the text, with sinks: everything is seen, as ever.
    EXPECT_EQ(forward(*model, *backend, some_text(), parse_kv_policy("f32, window=80, sinks=4", "test")), whole);
  }
}

TEST(ScoreRules, SinksAndBiasesAreTensorsOfTheirLayer) {
  const auto named = [](std::string_view model, const std::string& name) {
    const std::vector<TensorSpec> all = tensors_of(rule_model(model));
    return std::ranges::find(all, name, &TensorSpec::name) != all.end();
  };
  EXPECT_TRUE(named("sink_logits", "model.layers.1.self_attn.sinks"));
  EXPECT_FALSE(named("gemma2", "model.layers.1.self_attn.sinks"));
  EXPECT_TRUE(named("t5", "model.layers.1.self_attn.relative_attention_bias.weight"));
  EXPECT_TRUE(named("sink_logits", "model.layers.1.self_attn.v_proj.weight"));
  EXPECT_FALSE(named("latent", "model.layers.1.self_attn.v_proj.weight"));
}

TEST(ScoreRules, AlibiSlopesAreThePapers) {
  const std::vector<float> eight = alibi_slopes(8);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(eight[i], std::ldexp(1.0F, -1 - static_cast<int>(i)));
  const std::vector<float> six = alibi_slopes(6);  // four, and of eight the first and the third
  EXPECT_EQ(six, (std::vector<float>{0.25F, 0.0625F, 0.015625F, 0.00390625F, 0.5F, 0.125F}));
}

// By hand, from T5's relative_attention_num_buckets 32 and relative_attention_max_distance 128.
TEST(ScoreRules, BucketsAreT5s) {
  const PositionBiasSpec decoder{PositionBiasSpec::Kind::kBuckets, 32, 128, PositionBiasSpec::Reach::kBefore};
  const std::vector<std::pair<int, int>> before{{5, 0},    {0, 0},    {-1, 1},   {-15, 15},  {-16, 16},  {-19, 17},
                                                {-31, 21}, {-32, 21}, {-63, 26}, {-112, 30}, {-113, 31}, {-500, 31}};
  for (const auto& [distance, bucket] : before) EXPECT_EQ(bucket_of(decoder, distance), bucket) << distance;
  PositionBiasSpec encoder = decoder;
  encoder.reach = PositionBiasSpec::Reach::kBothWays;
  const std::vector<std::pair<int, int>> both{{0, 0},   {-7, 7},   {7, 23},  {-8, 8},   {-12, 9},  {-16, 10},
                                              {16, 26}, {-91, 15}, {91, 31}, {-90, 14}, {600, 31}, {-600, 15}};
  for (const auto& [distance, bucket] : both) EXPECT_EQ(bucket_of(encoder, distance), bucket) << distance;
  const std::vector<float> table = bias_by_distance(encoder, noise_vector(32 * 3, 1), 3);
  ASSERT_EQ(table.size(), 3U * 257U);
  EXPECT_EQ(table[257 + 128 + 7], noise(1, 23 * 3 + 1));
}

std::string refused(std::string_view model, const char* policy) {
  try {
    kv_groups(rule_model(model), parse_kv_policy(policy, "test"));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ScoreRules, PoliciesThatALayerDoesNotAllowAreRefusedByName) {
  for (const char* policy : {"k=int8, v=f16", "rank=k:8/v:8", "f16, 1:int8/f16", "channels=50%"}) {
    EXPECT_NE(refused("latent", policy).find("V is a part of K"), std::string::npos) << refused("latent", policy);
  }
  for (const char* policy : {"int8", "int4, recent=20:bf16, sinks=4", "f16, window=30, sinks=4", "evict=h2o:20"}) {
    EXPECT_EQ(refused("latent", policy), "no error");
  }
  for (const char* model : {"bloom", "t5"}) {
    for (const char* policy : {"f16, window=30, sinks=4", "evict=h2o:20"}) {
      EXPECT_NE(refused(model, policy).find("scores depend on distances"), std::string::npos)
          << refused(model, policy);
    }
    for (const char* policy : {"f16, window=30", "int4, recent=20:bf16, sinks=4", "rank=k:8/v:8"}) {
      EXPECT_EQ(refused(model, policy), "no error");
    }
  }
}

// A chunk is kept as a window is: what no query will see again is given back, and a policy may keep less.
TEST(ScoreRules, ChunksAreGroupsOfTheirOwn) {
  const std::vector<KvGroup> plain = kv_groups(rule_model("chunked", {24, 0}), {});
  ASSERT_EQ(plain.size(), 2U);
  EXPECT_EQ(plain[0].retention, (Retention{0, 0, 24}));
  EXPECT_EQ(plain[1].retention, Retention{});
  const std::vector<KvGroup> narrow =
      kv_groups(rule_model("chunked", {24, 0}), parse_kv_policy("f16, window=16, sinks=4", "test"));
  EXPECT_EQ(narrow[0].retention, (Retention{16, 0, 24}));
  EXPECT_EQ(narrow[1].retention, (Retention{16, 4, 0}));
}

}  // namespace
}  // namespace kvasir::testing
