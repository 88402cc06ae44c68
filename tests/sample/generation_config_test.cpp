#include "sample/generation_config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace kvasir::testing {
namespace {

SamplingOverrides parse(const std::string& json) { return parse_generation_config(json, "generation_config.json"); }

std::string refusal(const std::string& json) {
  try {
    parse(json);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(GenerationConfig, ReadsWhatTheAuthorsName) {
  const SamplingOverrides all = parse(
      R"({"do_sample":true,"temperature":0.7,"top_k":20,"top_p":0.9,"min_p":0.05,"repetition_penalty":1.1,"eos_token_id":[0,3]})");
  EXPECT_EQ(all.temperature, 0.7F);
  EXPECT_EQ(all.top_k, 20);
  EXPECT_EQ(all.top_p, 0.9F);
  EXPECT_EQ(all.min_p, 0.05F);
  EXPECT_EQ(all.repetition_penalty, 1.1F);
  EXPECT_EQ(to_text(all), "temperature 0.7, top_k 20, top_p 0.9, min_p 0.05, repetition_penalty 1.1");
  EXPECT_TRUE(parse(R"({"do_sample":true,"temperature":null,"max_length":20})").empty());
  EXPECT_EQ(parse(R"({"top_k":-1})").top_k, 0);
  EXPECT_EQ(to_text(parse("{}")), "");
}

TEST(GenerationConfig, NotToSampleIsGreedyWhateverElseIsNamed) {
  EXPECT_EQ(parse(R"({"do_sample":false})").temperature, 0.0F);
  EXPECT_EQ(parse(R"({"do_sample":false,"temperature":0.6})").temperature, 0.0F);
}

TEST(GenerationConfig, WhatIsWrongIsNamed) {
  EXPECT_NE(refusal(R"({"temperature":"hot"})").find("temperature is not a number"), std::string::npos);
  EXPECT_NE(refusal(R"({"temperature":-1})").find("temperature is -1, outside 0..100"), std::string::npos);
  EXPECT_NE(refusal(R"({"top_p":1.5})").find("top_p is 1.5, outside 0..1"), std::string::npos);
  EXPECT_NE(refusal(R"({"min_p":2})").find("min_p is 2, outside 0..1"), std::string::npos);
  EXPECT_NE(refusal(R"({"repetition_penalty":0})").find("repetition_penalty is 0, outside"), std::string::npos);
  EXPECT_NE(refusal(R"({"top_k":2.5})").find("top_k is not an integer"), std::string::npos);
  EXPECT_NE(refusal(R"({"top_k":-2})").find("top_k is -2, outside"), std::string::npos);
  EXPECT_NE(refusal(R"({"do_sample":"no"})").find("do_sample is not true or false"), std::string::npos);
  EXPECT_NE(refusal("[").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal("[]"), "accepted");
}

TEST(GenerationConfig, AFolderWithoutTheFileNamesNothing) {
  const auto folder = std::filesystem::temp_directory_path() / ("kvasir_generation_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(load_generation_config(folder).empty());
  std::ofstream(folder / "generation_config.json") << R"({"top_p":0.5})";
  EXPECT_EQ(load_generation_config(folder).top_p, 0.5F);
  std::filesystem::remove_all(folder);
}

TEST(ResolveSampling, TheRequestGoesBeforeTheModelAndTheModelBeforeHabit) {
  SamplingParams habit{.temperature = 0.8F, .top_k = 40, .top_p = 0.95F, .min_p = 0.05F};
  habit.presence_penalty = 0.5F;
  habit.seed = 9;
  const SamplingParams usual = resolve_sampling(habit, {}, {});
  EXPECT_EQ(usual.temperature, 0.8F);
  EXPECT_EQ(usual.top_k, 40);
  const SamplingParams own = resolve_sampling(habit, {.temperature = 0.7F, .top_p = 0.9F}, {});
  EXPECT_EQ(own.temperature, 0.7F);
  EXPECT_EQ(own.top_p, 0.9F);
  EXPECT_EQ(own.top_k, 0) << "what the model's authors leave out is off, not the API's habit";
  EXPECT_EQ(own.min_p, 0.0F);
  EXPECT_EQ(own.presence_penalty, 0.5F);
  EXPECT_EQ(own.seed, 9U);
  EXPECT_EQ(resolve_sampling(habit, {.top_k = 20}, {}).temperature, 1.0F);
  const SamplingParams asked =
      resolve_sampling(habit, {.temperature = 0.7F, .top_p = 0.9F},
                       {.temperature = 0.0F, .top_k = 3, .min_p = 0.2F, .repetition_penalty = 1.3F});
  EXPECT_EQ(asked.temperature, 0.0F);
  EXPECT_EQ(asked.top_k, 3);
  EXPECT_EQ(asked.top_p, 0.9F);
  EXPECT_EQ(asked.min_p, 0.2F);
  EXPECT_EQ(asked.repetition_penalty, 1.3F);
}

}  // namespace
}  // namespace kvasir::testing
