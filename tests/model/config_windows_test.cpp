// Windows of a config's layers, and the groups of layers that a policy makes of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "config_texts.h"
#include "layout/kv_policy.h"
#include "layout/kv_view.h"
#include "model/config.h"

namespace kvasir {
namespace {

TEST(Config, MistralWindow) {
  EXPECT_EQ(windows_of(R"("sliding_window":4096)", kMistral), (Windows{4096, 4096}));
  EXPECT_TRUE(windows_of(R"("sliding_window":null)", kMistral).empty());
  EXPECT_TRUE(windows_of(R"("sliding_window":4096)", kLlama).empty());  // llama has none, whatever the file says
}

TEST(Config, QwenWindow) {
  EXPECT_TRUE(windows_of(R"("sliding_window":131072,"max_window_layers":2)", kQwen2).empty());
  EXPECT_TRUE(windows_of(R"("use_sliding_window":false,"sliding_window":131072)", kQwen2).empty());
  EXPECT_EQ(windows_of(R"("use_sliding_window":true,"sliding_window":1024,"max_window_layers":2)", kQwen2),
            (Windows{0, 0, 1024, 1024}));
  EXPECT_EQ(windows_of(R"("use_sliding_window":true,"sliding_window":1024,"max_window_layers":0)", kQwen2),
            (Windows{1024, 1024, 1024, 1024}));
}

constexpr const char* kGemma2 = R"("model_type":"gemma2","num_hidden_layers":4,"hidden_size":2304,
  "intermediate_size":9216,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"vocab_size":256000,
  "max_position_embeddings":8192,"hidden_act":"gelu_pytorch_tanh","sliding_window":4096)";

TEST(Config, Gemma2AlternatesAndStartsLocal) {
  const ModelSpec config = parsed("", kGemma2);
  EXPECT_EQ(windows_of(config), (Windows{4096, 0, 4096, 0}));
  EXPECT_TRUE(config.tied_embeddings);
  const std::vector<KvGroup> groups = kv_groups(config, {KvFormat::kF16, KvFormat::kBF16, {}});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].layers, (std::vector<int>{0, 2}));
  EXPECT_EQ(groups[0].retention, (Retention{4096, 0}));
  EXPECT_EQ(groups[1].layers, (std::vector<int>{1, 3}));
  EXPECT_TRUE(groups[1].retention.full());
  EXPECT_EQ(groups[1].shape, (KvShape{4, 256, 256}));
  EXPECT_EQ(groups[1].k_format, KvFormat::kF16);
  EXPECT_EQ(groups[1].v_format, KvFormat::kBF16);
}

TEST(Config, APolicysWindowNarrowsLayersAndMayMakeThemAlike) {
  const ModelSpec config = parsed("", kGemma2);
  const auto wide = kv_groups(config, {KvFormat::kF16, KvFormat::kF16, {8192, 4}});
  ASSERT_EQ(wide.size(), 2U);
  EXPECT_EQ(wide[0].retention, (Retention{4096, 0}));
  EXPECT_EQ(wide[1].retention, (Retention{8192, 4}));
  const auto narrow = kv_groups(config, {KvFormat::kF16, KvFormat::kF16, {100, 0}});
  ASSERT_EQ(narrow.size(), 1U);
  EXPECT_EQ(narrow[0].layers, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(narrow[0].retention, (Retention{100, 0}));
}

// Every key that a layer sees is read from exactly one of its groups.
TEST(Config, RecentTokensAreAGroupOfTheirOwn) {
  const ModelSpec config = parsed("", kGemma2);
  for (const char* text : {"bf16, recent=64:f32, sinks=4", "bf16, recent=4096:f32", "bf16, recent=5000:f32, sinks=2",
                           "bf16, recent=20:f32, window=100, sinks=4"}) {
    const KvPolicy policy = parse_kv_policy(text, "test");
    KvPolicy plain = policy;
    plain.recent = 0;
    if (plain.retention.full()) plain.retention.sinks = 0;
    const std::vector<KvGroup> groups = kv_groups(config, policy);
    for (int layer = 0; layer < config.layer_count(); ++layer) {
      Retention seen;
      for (const KvGroup& group : kv_groups(config, plain)) {
        if (std::ranges::find(group.layers, layer) != group.layers.end()) seen = group.retention;
      }
      for (const std::int64_t query : {0, 10, 70, 130, 4200, 9000}) {
        for (std::int64_t key = 0; key <= query; key += key < 130 ? 1 : 13) {
          int readers = 0;
          for (const KvGroup& group : groups) {
            if (std::ranges::find(group.layers, layer) == group.layers.end()) continue;
            KvView view;
            view.retention = group.retention;
            view.recent_override = group.recent_override;
            if (!view.reads(query, key)) continue;
            ++readers;
            const bool local = config.attention(layer).window > 0;
            const bool fine = query - key < policy.recent || (key < policy.retention.sinks && !local);
            EXPECT_EQ(group.k_format, fine ? KvFormat::kF32 : KvFormat::kBF16) << text << " " << query << " " << key;
          }
          EXPECT_EQ(readers, seen.visible(query, key) ? 1 : 0)
              << text << ", " << layer << ": " << query << " " << key;
        }
      }
    }
  }
}

TEST(Config, LayersOfOneFormatAndOneRetentionAreAGroup) {
  const ModelSpec config = parsed("", kGemma2);  // layers 0 and 2 have a window
  const auto groups = kv_groups(config, parse_kv_policy("k=int4, v=int2, 0:int8, 3:int8/int2", "test"));
  ASSERT_EQ(groups.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(groups[i].layers, std::vector<int>{static_cast<int>(i)});
    EXPECT_EQ(groups[i].retention.full(), i % 2 == 1);
    EXPECT_EQ(groups[i].k_format, i == 0 || i == 3 ? KvFormat::kInt8 : KvFormat::kInt4);
    EXPECT_EQ(groups[i].v_format, i == 0 ? KvFormat::kInt8 : KvFormat::kInt2);
  }
  const auto alike = kv_groups(config, parse_kv_policy("int4, 1:int8, 2:int8, window=64", "test"));
  ASSERT_EQ(alike.size(), 2U);
  EXPECT_EQ(alike[0].layers, (std::vector<int>{0, 3}));
  EXPECT_EQ(alike[1].layers, (std::vector<int>{1, 2}));
}

// A layer that is in the recent tokens' format anyhow has them once.
TEST(Config, RecentTokensBesideLayersWithFormatsOfTheirOwn) {
  const ModelSpec config = parsed("", R"("model_type":"llama","num_hidden_layers":3,"hidden_size":8,
    "intermediate_size":8,"num_attention_heads":1,"vocab_size":8,"max_position_embeddings":64)");
  const auto groups = kv_groups(config, parse_kv_policy("int4, 0:f16, 2:int8, recent=8:f16", "test"));
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(groups[0].layers, std::vector<int>{0});
  EXPECT_TRUE(groups[0].retention.full() && groups[0].recent_override.full());
  EXPECT_EQ(groups[1].layers, std::vector<int>{1});
  EXPECT_EQ(groups[1].k_format, KvFormat::kInt4);
  EXPECT_EQ(groups[2].layers, (std::vector<int>{1, 2}));  // the recent tokens of both
  EXPECT_EQ(groups[2].retention, (Retention{8, 0}));
  EXPECT_EQ(groups[3].layers, std::vector<int>{2});
  EXPECT_EQ(groups[3].k_format, KvFormat::kInt8);
  EXPECT_EQ(groups[3].recent_override, (Retention{8, 0}));
}

TEST(Config, APolicyThatNamesALayerTheModelHasNotIsRefused) {
  const ModelSpec config = parsed("", kGemma2);
  EXPECT_NO_THROW(kv_groups(config, parse_kv_policy("int4, 3:int8", "test")));
  for (const char* text : {"int4, 4:int8", "int4, 0:int8, 2-7:int8"}) {
    try {
      kv_groups(config, parse_kv_policy(text, "test"));
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(error.parts().what.find("and the model has 4"), std::string::npos) << error.what();
      EXPECT_NE(error.parts().fix.find("0 to 3"), std::string::npos) << error.what();
    }
  }
}

TEST(Config, LayerTypesDecide) {
  EXPECT_EQ(windows_of(R"("layer_types":["full_attention","sliding_attention","full_attention","full_attention"])",
                       kGemma2),
            (Windows{0, 4096, 0, 0}));
}

TEST(Config, Gemma3IsNestedAndOmitsDefaults) {
  const ModelSpec config = parse_config(R"({"model_type":"gemma3","torch_dtype":"bfloat16","eos_token_id":[1,106],
    "bos_token_id":2,"text_config":{"model_type":"gemma3_text","hidden_size":2560,"intermediate_size":10240,
    "num_hidden_layers":34,"rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024},
    "vision_config":{"hidden_size":1152}})",
                                        "config.json");
  EXPECT_EQ(config.family_name(), "gemma3_text");
  EXPECT_EQ(config.attention(0).heads, 8);
  EXPECT_EQ(config.attention(0).kv.heads, 4);
  EXPECT_EQ(config.attention(0).kv.k_dim, 256);
  EXPECT_EQ(config.vocab, 262208);
  EXPECT_EQ(config.context, 131072);
  EXPECT_DOUBLE_EQ(config.ropes.at(0).theta, 1e6);
  EXPECT_EQ(config.dtype, DType::kBF16);
  EXPECT_EQ(config.eos, (std::vector<TokenId>{1, 106}));
  EXPECT_EQ(config.bos, 2);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(parameter_count(config), 3'880'263'168U);
  ASSERT_EQ(config.layers.size(), 34U);
  for (int layer = 0; layer < 34; ++layer) {
    EXPECT_EQ(config.attention(layer).window, layer % 6 == 5 ? 0 : 1024) << layer;
  }
}

TEST(Config, OneGroupWithoutWindows) {
  const std::vector<KvGroup> groups = kv_groups(parsed(""), uniform_policy(KvFormat::kF32));
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].layers.size(), 16U);
  EXPECT_EQ(bytes_per_token(groups[0]), 16 * 8 * 64 * 2 * 4);
}

// llama-3.2-1b: 16 layers, 8 KV heads of 64.
TEST(Config, ShorterRowsTakeTheBytesOfTheirNumbers) {
  const auto groups = [](const char* policy) { return kv_groups(parsed(""), parse_kv_policy(policy, "test")); };
  const auto bytes = [&](const char* policy) {
    std::int64_t sum = 0;
    for (const KvGroup& group : groups(policy)) sum += bytes_per_token(group);
    return sum;
  };
  EXPECT_EQ(bytes("f16, rank=k:32/v:48"), 16 * 8 * (32 + 48) * 2);
  EXPECT_EQ(bytes("f16, rank=k:33"), 16 * 8 * (33 + 64) * 2);
  EXPECT_EQ(bytes("int8, rank=v:16"), 16 * 8 * (64 + 16 + 2 * 2));
  EXPECT_EQ(bytes("f16, channels=60%"), 16 * 8 * (38 + 64) * 2);
  EXPECT_EQ(bytes("k=f16, v=top50, channels=1%"), 16 * 8 * (1 * 2 + 8 + 32 * 2));
  // Recent tokens are kept whole.
  const std::vector<KvGroup> two = groups("f16, rank=k:8/v:8, recent=32:f32");
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(bytes_per_token(two[0]), 16 * 8 * (8 + 8) * 2);
  EXPECT_EQ(bytes_per_token(two[1]), 16 * 8 * (64 + 64) * 4);
  for (const char* much : {"rank=k:65", "rank=v:65", "rank=k:1/v:1000"}) {
    try {
      groups(much);
      ADD_FAILURE() << much;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("more than the 64 numbers of a head"), std::string::npos);
    }
  }
}

TEST(Config, MalformedWindowsAreNamed) {
  const auto message = [](const std::string& more, const char* sizes) {
    return error_of_config(fmt::format("{{{},{}}}", more, sizes));
  };
  EXPECT_NE(message(R"("sliding_window":0)", kMistral).find("sliding_window is 0"), std::string::npos);
  EXPECT_NE(message(R"("layer_types":["full_attention"])", kGemma2).find("1 entries for 4 layers"),
            std::string::npos);
  EXPECT_NE(message(R"("layer_types":[1,2,3,4])", kGemma2).find("not a string"), std::string::npos);
  EXPECT_NE(message(R"("layer_types":"full")", kGemma2).find("not a list"), std::string::npos);
  EXPECT_NE(message(R"("layer_types":["a","b","c","d"])", kGemma2).find("'a'; known are full"), std::string::npos);
}

}  // namespace
}  // namespace kvasir
