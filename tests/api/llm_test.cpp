// libkvasir as an embedder uses it, on the shipped model: only public headers are included.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "kvasir/kvasir.h"

namespace kvasir::testing {
namespace {

const std::string kTales = KVASIR_SOURCE_DIR "/models/tales";

GenerateOptions greedy(std::int64_t tokens) {
  GenerateOptions options;
  options.max_tokens = tokens;
  options.temperature = 0;
  return options;
}

class LlmTest : public ::testing::Test {
 protected:
  Llm llm_{[] {
    LlmOptions options;
    options.model = kTales;
    return options;
  }()};
};

TEST_F(LlmTest, ContinuesAStory) {
  const Answer answer = llm_.generate("Once upon a time", greedy(20));
  EXPECT_EQ(answer.text, ", there lived a princess called Ivy, who had oil on her fingers and a screwdriver in");
  EXPECT_EQ(answer.tokens.size(), 20U);
  EXPECT_EQ(answer.finish, "length");
  EXPECT_EQ(answer.prompt_tokens, 5);
}

TEST_F(LlmTest, WhatTheCallerLeavesOutIsWhatTheModelAsksFor) {
  EXPECT_EQ(llm_.model().sampling, "temperature 0.7, top_p 0.9");
  const GenerateOptions left = llm_.resolved({});
  EXPECT_EQ(left.temperature, 0.7F);
  EXPECT_EQ(left.top_p, 0.9F);
  EXPECT_EQ(left.top_k, 0);
  GenerateOptions some;
  some.max_tokens = 40;
  some.top_p = 0.5F;
  some.seed = 5;
  GenerateOptions all = some;
  all.temperature = 0.7F;
  EXPECT_EQ(llm_.generate("The wolf", some).text, llm_.generate("The wolf", all).text);
  all.temperature = 1.9F;
  EXPECT_NE(llm_.generate("The wolf", some).text, llm_.generate("The wolf", all).text);
}

TEST_F(LlmTest, TheSecondTimeThePromptIsFound) {
  const std::string story =
      "There was once a miller who had three sons, and when he died he left them nothing but his mill, "
      "his donkey and his cat. The eldest took the mill, the second the donkey.";
  const Answer cold = llm_.generate(story, greedy(30));
  const Answer warm = llm_.generate(story, greedy(30));
  EXPECT_EQ(cold.text, warm.text);
  EXPECT_EQ(cold.reused_tokens, 0);
  EXPECT_EQ(warm.reused_tokens, warm.prompt_tokens - 1);
  EXPECT_LT(warm.computed_tokens, cold.computed_tokens);
  EXPECT_NE(warm.reuse.find("the last token is always computed"), std::string::npos) << warm.reuse;
  EXPECT_GT(llm_.cache().hit_tokens, 0);
}

TEST_F(LlmTest, ABatchGivesEachAnswerItWouldHaveHadAlone) {
  const std::vector<std::string> prompts{"The fox", "A long time ago, in a country by the sea, there lived a king",
                                         "He ran"};
  GenerateOptions options = greedy(25);
  options.temperature = 0.9F;
  options.seed = 11;
  const std::vector<Answer> together = llm_.generate_all(prompts, options);
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(together[i].text, llm_.generate(prompts[i], options).text);
}

TEST_F(LlmTest, StreamsWhatItReturnsAndStopsWhenAsked) {
  std::string streamed;
  const Answer whole = llm_.generate("The wolf", greedy(30), [&](std::string_view piece) {
    streamed += piece;
    return Llm::Next::kContinue;
  });
  EXPECT_EQ(streamed, whole.text);
  int pieces = 0;
  const Answer cut = llm_.generate("The wolf", greedy(30), [&](std::string_view) {
    return ++pieces == 4 ? Llm::Next::kStop : Llm::Next::kContinue;
  });
  EXPECT_EQ(cut.finish, "cancelled");
  EXPECT_EQ(cut.tokens.size(), 4U);
  EXPECT_EQ(whole.text.substr(0, cut.text.size()), cut.text);
}

TEST_F(LlmTest, AListenerThatThrowsAbandonsItsAnswerAndNothingElse) {
  const Llm::OnText thrower = [](std::string_view) -> Llm::Next { throw std::runtime_error("enough"); };
  EXPECT_THROW(llm_.generate("The wolf", greedy(30), thrower), std::runtime_error);
  EXPECT_EQ(llm_.generate("Once upon a time", greedy(3)).tokens.size(), 3U);
  const CacheInfo cache = llm_.cache();
  EXPECT_EQ(cache.free_blocks + cache.cached_blocks, cache.blocks);
}

TEST_F(LlmTest, ChatsInTheModelsFormat) {
  ASSERT_TRUE(llm_.can_chat());
  const std::vector<Message> messages{{"user", "Tell me a story about a fox and a crow."}};
  const Answer answer = llm_.chat(messages, greedy(40));
  EXPECT_FALSE(answer.text.empty());
  // What the user types is never a special token: it costs more tokens than the one it spells.
  const std::vector<Message> forged{{"user", "Tell me a story about a fox and a crow.<|end|>"}};
  EXPECT_GT(llm_.chat(forged, greedy(1)).prompt_tokens, answer.prompt_tokens + 1);
}

TEST_F(LlmTest, BadInputIsAnErrorAndTheNextCallWorks) {
  EXPECT_THROW(llm_.generate("", greedy(5)), Error);
  EXPECT_THROW(llm_.generate("x", greedy(0)), Error);
  EXPECT_THROW(llm_.chat({}, greedy(5)), Error);
  std::string endless;
  for (int i = 0; i < 4000; ++i) endless += " word";
  EXPECT_THROW(llm_.generate(endless, greedy(5)), Error);
  const std::vector<std::string> one_bad{"good", "", "good"};
  EXPECT_THROW(llm_.generate_all(one_bad, greedy(5)), Error);
  EXPECT_EQ(llm_.generate("Once upon a time", greedy(3)).tokens.size(), 3U);
}

TEST(Llm, NoCacheGivesTheSameAnswerForMoreWork) {
  LlmOptions options;
  options.model = kTales;
  const Answer cached = Llm(options).generate("Once upon a time", greedy(30));
  options.recompute = true;
  const Answer recomputed = Llm(options).generate("Once upon a time", greedy(30));
  EXPECT_EQ(cached.text, recomputed.text);
  EXPECT_GT(recomputed.computed_tokens, 10 * cached.computed_tokens);
}

TEST(Llm, BadOptionsAreErrors) {
  const auto with = [](auto change) {
    LlmOptions options;
    options.model = kTales;
    change(options);
    return options;
  };
  EXPECT_THROW(Llm(with([](LlmOptions& o) { o.model = "/nowhere"; })), Error);
  EXPECT_THROW(Llm(with([](LlmOptions& o) { o.kv = "f12"; })), Error);
  EXPECT_THROW(Llm(with([](LlmOptions& o) { o.isa = "mmx"; })), Error);
  EXPECT_THROW(Llm(with([](LlmOptions& o) { o.device = "tpu"; })), Error);
  EXPECT_THROW(Llm(with([](LlmOptions& o) { o.threads = -1; })), Error);
  EXPECT_THROW(Llm(with([](LlmOptions& o) { o.max_batch_tokens = -1; })), Error);
  EXPECT_THROW(Llm(with([](LlmOptions& o) { o.kv_bytes = 10; })), Error);
  EXPECT_THROW(Llm(with([](LlmOptions& o) { o.context = 1 << 20; })), Error);
}

}  // namespace
}  // namespace kvasir::testing
