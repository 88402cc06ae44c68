#include "layout/kv_policy.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

std::string canonical(std::string_view text) { return to_text(parse_kv_policy(text, "--kv")); }

TEST(KvPolicy, OrderAndWhiteSpaceSayNothing) {
  EXPECT_EQ(canonical("bf16"), "bf16");
  EXPECT_EQ(canonical("  k = bf16 ,v= bf16\t"), "bf16");
  EXPECT_EQ(canonical("v=f32"), "k=f16, v=f32");
  EXPECT_EQ(canonical("k=f32"), "k=f32, v=f16");
  EXPECT_EQ(canonical("sinks=4,window=1024,f32"), "f32, window=1024, sinks=4");
  EXPECT_EQ(canonical("window=7"), "f16, window=7");
  EXPECT_EQ(canonical("sinks=4, recent = 64 : f32, bf16"), "bf16, recent=64:f32, sinks=4");
  EXPECT_EQ(canonical("rank = v:48 / k:32, int8"), "int8, rank=k:32/v:48");
  EXPECT_EQ(canonical("rank=k:7"), "f16, rank=k:7");
  EXPECT_EQ(canonical("rank=v:9, channels= 60 %,recent=8:f32"), "f16, rank=v:9, channels=60%, recent=8:f32");
  EXPECT_EQ(canonical("channels=100%"), "f16");
  EXPECT_EQ(canonical("window=100,sinks=4,recent=64:f32,bf16"), "bf16, recent=64:f32, window=100, sinks=4");
}

TEST(KvPolicy, EvictionHasOneTextToo) {
  EXPECT_EQ(canonical(" evict = h2o : 256 "), "f16, evict=h2o:256");
  EXPECT_EQ(canonical("sinks=4, evict=snapkv:25 %, int8"), "int8, evict=snapkv:25%, sinks=4");
  EXPECT_EQ(canonical("heads=adaptive, budgets=pyramid, evict=lru:7"),
            "f16, evict=lru:7, budgets=pyramid, heads=adaptive");
  for (const char* method : {"fifo", "lru", "h2o", "tova", "snapkv"}) {
    for (const char* budget : {"1", "300", "1%", "100%"}) {
      for (const char* more : {"", ", budgets=pyramid", ", sinks=2"}) {
        if (std::string(budget) == "1" && std::string(more) == ", sinks=2") continue;
        const std::string text = "k=int8, v=int4, evict=" + std::string(method) + ":" + budget + more;
        EXPECT_EQ(canonical(text), text);
        EXPECT_FALSE(parse_kv_policy(text, "--kv") == parse_kv_policy("k=int8, v=int4", "--kv"));
      }
    }
  }
}

TEST(KvPolicy, StatesHaveAFormatOfTheirOwn) {
  EXPECT_EQ(canonical("states = bf16, int8"), "int8, states=bf16");
  EXPECT_EQ(canonical("states=f32"), "f16");
  EXPECT_EQ(canonical("sinks=4, states=int8, window=64"), "f16, states=int8, window=64, sinks=4");
  EXPECT_EQ(parse_kv_policy("bf16, states=int8", "--kv").states, StateFormat::kInt8);
  EXPECT_THROW(parse_kv_policy("states=int4", "--kv"), Error);
  EXPECT_THROW(parse_kv_policy("states=bf16, states=bf16", "--kv"), Error);
}

// How many states a request leaves behind names no block: it is no part of a policy.
TEST(KvPolicy, ARequestMaySayHowManyStatesItLeaves) {
  const RequestedKv both = parse_requested_kv("state_budget=2, bf16, states=int8", "kv");
  EXPECT_EQ(both.state_budget, 2);
  ASSERT_TRUE(both.policy.has_value());
  EXPECT_EQ(to_text(*both.policy), "bf16, states=int8");
  const RequestedKv alone = parse_requested_kv("state_budget=0", "kv");
  EXPECT_EQ(alone.state_budget, 0);
  EXPECT_FALSE(alone.policy.has_value());
  const RequestedKv none = parse_requested_kv("f16", "kv");
  EXPECT_EQ(none.state_budget, std::nullopt);
  EXPECT_EQ(none.policy, parse_kv_policy("f16", "kv"));
  EXPECT_THROW(parse_requested_kv("state_budget=-1", "kv"), Error);
  EXPECT_THROW(parse_requested_kv("state_budget=1025", "kv"), Error);
  EXPECT_THROW(parse_requested_kv("state_budget=1, state_budget=1", "kv"), Error);
  EXPECT_THROW(parse_kv_policy("f16, state_budget=2", "--kv"), Error);
}

TEST(KvPolicy, LayersHaveFormatsOfTheirOwn) {
  EXPECT_EQ(canonical("3-5:int8/int4, int4, 0 : int8, recent=64:f16"), "int4, 0:int8, 3-5:int8/int4, recent=64:f16");
  const KvPolicy mixed = parse_kv_policy("k=int8, v=int2, 1:f32, 3-5:int8/int4, 7:int4", "--kv");
  using Formats = std::pair<KvFormat, KvFormat>;
  const Formats rest{KvFormat::kInt8, KvFormat::kInt2};
  const Formats middle{KvFormat::kInt8, KvFormat::kInt4};
  const std::vector<Formats> expected{rest, {KvFormat::kF32, KvFormat::kF32},   rest, middle, middle, middle,
                                      rest, {KvFormat::kInt4, KvFormat::kInt4}, rest};
  for (int layer = 0; layer < 9; ++layer) {
    EXPECT_EQ(formats_of_layer(mixed, layer), expected[static_cast<size_t>(layer)]) << layer;
  }
}

// However it is written, one policy is one value with one text.
TEST(KvPolicy, LayersAreWrittenInOneWay) {
  EXPECT_EQ(canonical("int4, 2:int8, 0-1:int8, 3:int8/int8"), "int4, 0-3:int8");
  EXPECT_EQ(canonical("int4, 2:int4, 1:int8, 3:int8"), "int4, 1:int8, 3:int8");  // 2 is as all others, and in between
  EXPECT_EQ(canonical("0-4095:f16"), "f16");
  EXPECT_EQ(canonical("int4, 1 - 1 : int8 / int2"), "int4, 1:int8/int2");
  EXPECT_EQ(parse_kv_policy("int4, 0:int8, 1:int8", "--kv"), parse_kv_policy("1:int8, int4, 0:int8", "--kv"));
  EXPECT_NE(parse_kv_policy("int4, 0:int8", "--kv"), parse_kv_policy("int4, 1:int8", "--kv"));
  for (const char* text : {"int4, 0:int8", "k=int4, v=int2, 0-3:int8/f16, 9:int2, recent=5:f16, window=9, sinks=2"}) {
    EXPECT_EQ(canonical(text), text);
  }
}

TEST(KvPolicy, ItsTextGivesItBack) {
  for (const KvFormat k : kAllKvFormats) {
    for (const KvFormat v : kAllKvFormats) {
      for (const Retention kept : {Retention{}, Retention{1, 0}, Retention{1000, 4}}) {
        KvPolicy policy{k, v, kept};
        EXPECT_EQ(parse_kv_policy(to_text(policy), "--kv"), policy) << to_text(policy);
        if (kept.window == 1) continue;
        policy.recent = 5;
        policy.recent_format = k;
        EXPECT_EQ(parse_kv_policy(to_text(policy), "--kv"), policy) << to_text(policy);
      }
    }
  }
}

TEST(KvPolicy, WhatIsWrongIsNamedWithItsPlaceAndAWayOut) {
  struct Wrong {
    const char* text;
    const char* says;
  };
  for (const Wrong& wrong : std::vector<Wrong>{{"", "empty"},
                                               {"f16,", "empty"},
                                               {"f17", "'f17' is not a KV format"},
                                               {"k=", "empty"},
                                               {"bf16, f16", "the format of K is given twice"},
                                               {"f16, v=f32", "the format of V is given twice"},
                                               {"window=2, window=2", "window is given twice"},
                                               {"window=0", "'0' is not a number of tokens for window="},
                                               {"window=-3", "'-3'"},
                                               {"window=12x", "'12x'"},
                                               {"window=99999999999999999999", "not a number of tokens"},
                                               {"sinks=4", "sinks=4 says nothing without a window"},
                                               {"recent=64", "does not say in which format"},
                                               {"recent=0:f32", "'0'"},
                                               {"recent=8:f33", "'f33' is not a KV format"},
                                               {"window=8, recent=8:f32", "covers the whole window of 8"},
                                               {"recent=8:f32, recent=8:f32", "recent is given twice"},
                                               {"evict=h2o", "does not say how many tokens stay"},
                                               {"evict=h3o:5", "no way to evict called 'h3o'"},
                                               {"evict=none:5", "no way to evict called 'none'"},
                                               {"evict=h2o:0", "'0'"},
                                               {"evict=h2o:0%", "no share of a prompt"},
                                               {"evict=h2o:101%", "no share of a prompt"},
                                               {"evict=h2o:%", "no share of a prompt"},
                                               {"evict=h2o:5, evict=h2o:5", "evict is given twice"},
                                               {"evict=h2o:5, window=5", "evict= does not go with window="},
                                               {"evict=h2o:5, recent=5:f32", "evict= does not go with recent="},
                                               {"evict=h2o:5, sinks=5", "leave nothing of the 5 tokens"},
                                               {"budgets=pyramid", "say nothing without evict="},
                                               {"evict=h2o:5, budgets=cone", "no budgets called 'cone'"},
                                               {"evict=h2o:5, heads=all", "heads=all says nothing"},
                                               {"evict=tova:5, heads=adaptive", "the same tokens for all heads"},
                                               {"0:int9", "'int9' is not a KV format"},
                                               {"0:", "empty"},
                                               {"0:int8/", "empty"},
                                               {"0:int8/int4/int2", "'int4/int2' is not a KV format"},
                                               {"5-3:int8", "layers 5 to 3 are none"},
                                               {"0-:int8", "'' is not the number of a layer"},
                                               {"0-1-2:int8", "'1-2' is not the number of a layer"},
                                               {"1x:int8", "'1x' is not the number of a layer"},
                                               {"4096:int8", "'4096' is not the number of a layer"},
                                               {"0-3:int8, 2-5:int4", "the formats of layer 2 are given twice"},
                                               {"2-5:int8, 0-3:int8", "the formats of layer 2 are given twice"},
                                               {"@mix.policy", "a policy file is for the command line"},
                                               {"rank=32", "rank=32 does not say"},
                                               {"rank=k:", "does not say"},
                                               {"rank=k:0", "does not say"},
                                               {"rank=k:3/", "does not say"},
                                               {"rank=q:3", "does not say"},
                                               {"rank=k:99999999999", "does not say"},
                                               {"rank=k:3/k:3", "the rank of K is given twice"},
                                               {"rank=v:3, rank=v:3", "the rank of V is given twice"},
                                               {"channels=60", "'60' is no share"},
                                               {"channels=0%", "'0%' is no share"},
                                               {"channels=101%", "'101%' is no share"},
                                               {"channels=50%, rank=k:3", "both rank= and channels="},
                                               {"depth=3", "there is no setting 'depth'"}}) {
    try {
      parse_kv_policy(wrong.text, "here");
      ADD_FAILURE() << wrong.text;
    } catch (const Error& error) {
      EXPECT_NE(error.parts().what.find(wrong.says), std::string::npos) << wrong.text << ": " << error.what();
      EXPECT_EQ(error.parts().where, "here");
      EXPECT_FALSE(error.parts().fix.empty());
    }
  }
}

TEST(KvPolicy, NarrowsAndNeverWidens) {
  for (const Retention own :
       {Retention{}, Retention{3, 0}, Retention{9, 0}, Retention{0, 0, 7}, Retention{4, 0, 6}}) {
    for (const Retention by : {Retention{}, Retention{1, 0}, Retention{5, 2}, Retention{30, 3}}) {
      const Retention kept = narrowed(own, by);
      for (std::int64_t query = 0; query < 40; ++query) {
        for (std::int64_t key = 0; key <= query; ++key) {
          if (!kept.visible(query, key)) continue;
          EXPECT_TRUE(own.visible(query, key));
          EXPECT_TRUE(by.visible(query, key));
        }
        EXPECT_TRUE(kept.visible(query, query));
      }
      EXPECT_TRUE(!own.full() || kept == by);
      EXPECT_TRUE(!by.full() || kept == own);
    }
  }
}

}  // namespace
}  // namespace kvasir
