#include "plan/suggestions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "model/known_models.h"

namespace kvasir {
namespace {

constexpr std::uint64_t kGB = 1'000'000'000;

PlanInput input_of(const char* model, std::int64_t context, KvFormat format, std::uint64_t memory) {
  const ModelSpec config = shape_named(model);
  PlanInput input;
  input.weights_bytes = parameter_count(config) * block_bytes(config.dtype);
  input.groups = kv_groups(config, uniform_policy(format));
  input.context = context;
  input.memory_bytes = memory;
  return input;
}

const Suggestion* suggestion_with(const MemoryPlan& plan, const std::string& words) {
  const auto has = [&](const Suggestion& suggestion) { return suggestion.what.find(words) != std::string::npos; };
  const auto found = std::find_if(plan.suggestions.begin(), plan.suggestions.end(), has);
  return found == plan.suggestions.end() ? nullptr : &*found;
}

TEST(Suggestions, EachSaysWhatItSavesAndTheOrderIsByHarmAndEffect) {
  PlanInput input = input_of("llama-3.1-8b", 32768, KvFormat::kF32, 80 * kGB);
  input.users = 8;
  const MemoryPlan plan = plan_memory(input);
  ASSERT_FALSE(*plan.fits);
  ASSERT_GE(plan.suggestions.size(), 5U);
  for (size_t i = 0; i < plan.suggestions.size(); ++i) {
    const Suggestion& suggestion = plan.suggestions[i];
    EXPECT_EQ(suggestion.saves_bytes + suggestion.then_total_bytes, plan.total_bytes) << suggestion.what;
    if (suggestion.saves_bytes > 0) {
      EXPECT_EQ(suggestion.fits, suggestion.then_total_bytes <= *input.memory_bytes) << suggestion.what;
    }
    if (i == 0) continue;
    const Suggestion& before = plan.suggestions[i - 1];
    if (i + 1 < plan.suggestions.size()) {  // the last is more memory
      EXPECT_TRUE(before.fits >= suggestion.fits) << suggestion.what;
    }
    if (before.fits && suggestion.fits && before.divergence && suggestion.divergence) {
      EXPECT_LE(*before.divergence, *suggestion.divergence) << suggestion.what;
    }
    if (!before.fits && !suggestion.fits) {
      EXPECT_GE(before.saves_bytes, suggestion.saves_bytes) << suggestion.what;
    }
  }
}

// Two bits are not the first advice for a small saving.
TEST(Suggestions, WhatIsEnoughComesByWhatItCosts) {
  const MemoryPlan plan = plan_memory(input_of("llama-3.1-8b", 65536, KvFormat::kF16, 24 * kGB));
  std::vector<std::string> order;
  for (const Suggestion& suggestion : plan.suggestions) {
    for (const char* words : {"in int8 (", "fp8_e4m3", "K in int8 and V in int4", "fp8_e5m2", "K and V in int4",
                              "int2", "a context", "the last ", "more memory"}) {
      if (suggestion.what.find(words) != std::string::npos) order.emplace_back(words);
    }
  }
  const std::vector<std::string> expected{"in int8 (",  "a context",       "fp8_e4m3",  "K in int8 and V in int4",
                                          "fp8_e5m2",   "K and V in int4", "the last ", "int2",
                                          "more memory"};
  EXPECT_EQ(order, expected);
}

// The prices are those of the document.
TEST(Suggestions, DivergencesAreThoseThatWereMeasured) {
  std::ifstream file(KVASIR_SOURCE_DIR "/docs/kv-prices.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  int compared = 0;
  const MemoryPlan plan = plan_memory(input_of("llama-3.1-8b", 65536, KvFormat::kF32, 24 * kGB));
  for (const Suggestion& suggestion : plan.suggestions) {
    if (!suggestion.divergence) continue;
    const bool pair = suggestion.what.find("K in int8 and V in int4") != std::string::npos;
    const std::string rest = suggestion.what.substr(std::string_view("keep K and V in ").size());
    const std::string policy = pair ? "k=int8, v=int4" : rest.substr(0, rest.find(' '));
    const size_t row = page.find("\n| `" + policy + "` | ", page.find("| policy | bytes/token"));
    ASSERT_NE(row, std::string::npos) << policy;
    std::istringstream cells(page.substr(row + 1, page.find('\n', row + 1) - row));
    std::string cell;
    for (int i = 0; i < 7; ++i) std::getline(cells, cell, '|');
    EXPECT_NEAR(*suggestion.divergence / std::stod(cell), 1, 0.02) << policy << " " << cell;
    ++compared;
  }
  EXPECT_EQ(compared, 8);
}

TEST(Suggestions, FormatsAreThoseTheProjectHas) {
  const MemoryPlan wide = plan_memory(input_of("llama-3.1-8b", 65536, KvFormat::kF32, 30 * kGB));
  const Suggestion* half = suggestion_with(wide, "K and V in f16");
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(half->saves_bytes, 8'589'934'592U);
  EXPECT_TRUE(half->fits);
  EXPECT_NE(suggestion_with(wide, "K and V in bf16"), nullptr);
  // Smaller than f16, and nothing is smaller than the smallest.
  const MemoryPlan narrow = plan_memory(input_of("llama-3.1-8b", 65536, KvFormat::kF16, 24 * kGB));
  EXPECT_NE(suggestion_with(narrow, "K and V in int8"), nullptr);
  EXPECT_NE(suggestion_with(narrow, "K and V in fp8_e5m2"), nullptr);
  EXPECT_NE(suggestion_with(narrow, "K and V in int4"), nullptr);
  EXPECT_EQ(suggestion_with(narrow, "f16"), nullptr);
  const MemoryPlan least = plan_memory(input_of("llama-3.1-405b", 65536, KvFormat::kInt2, 24 * kGB));
  EXPECT_EQ(suggestion_with(least, "keep K"), nullptr);
}

TEST(Suggestions, ContextIsTheLongestThatFits) {
  const PlanInput input = input_of("llama-3.1-8b", 65536, KvFormat::kF16, 24 * kGB);
  const MemoryPlan plan = plan_memory(input);
  const Suggestion* shorter = suggestion_with(plan, "a context of 60,560 tokens");
  ASSERT_NE(shorter, nullptr);
  EXPECT_EQ(shorter->then_total_bytes, input.weights_bytes + 60560ULL * 131072);
  EXPECT_TRUE(shorter->fits);
}

TEST(Suggestions, FewerUsersOnlyWhenThereAreSome) {
  PlanInput input = input_of("llama-3.1-8b", 32768, KvFormat::kF16, 24 * kGB);
  input.users = 4;
  EXPECT_NE(suggestion_with(plan_memory(input), "1 user at a time"), nullptr);
  input.context = 65536;
  EXPECT_EQ(suggestion_with(plan_memory(input), "at a time"), nullptr);
}

TEST(Suggestions, TheSharedPrefixIsTheShortestThatIsEnough) {
  PlanInput input = input_of("llama-3.1-8b", 8192, KvFormat::kF16, 24 * kGB);
  input.users = 8;
  const MemoryPlan plan = plan_memory(input);
  const Suggestion* shared = suggestion_with(plan, "share");
  ASSERT_NE(shared, nullptr);
  EXPECT_TRUE(shared->fits);
  const std::uint64_t one_block_less = 7 * 16 * 131072ULL;
  EXPECT_GT(shared->then_total_bytes + one_block_less, *input.memory_bytes);
  input.users = 1;
  input.memory_bytes = 16 * kGB + 100'000'000;
  EXPECT_EQ(suggestion_with(plan_memory(input), "share"), nullptr);
}

TEST(Suggestions, TheWindowIsTheWidestThatFits) {
  PlanInput input = input_of("llama-3.1-8b", 65536, KvFormat::kF16, 24 * kGB);
  const MemoryPlan plan = plan_memory(input);
  ASSERT_NE(suggestion_with(plan, "the last 60,529 tokens and the first 4"), nullptr);
  input.groups[0].retention = {60529, 4};
  EXPECT_TRUE(*plan_memory(input).fits);
  input.groups[0].retention = {60530, 4};
  EXPECT_FALSE(*plan_memory(input).fits);
}

TEST(Suggestions, MemoryIsNamedToTheByteWithTheSmallestCard) {
  const MemoryPlan plan = plan_memory(input_of("llama-3.1-8b", 65536, KvFormat::kF16, 24 * kGB));
  const Suggestion* more = suggestion_with(plan, "650,457,088 bytes more memory");
  ASSERT_NE(more, nullptr);
  EXPECT_NE(more->what.find("RTX 5090"), std::string::npos);
  EXPECT_EQ(more, &plan.suggestions.back());
  const MemoryPlan huge = plan_memory(input_of("llama-3.1-405b", 8192, KvFormat::kInt2, 24 * kGB));
  ASSERT_EQ(huge.suggestions.size(), 1U);  // the weights alone do not fit
  EXPECT_NE(huge.suggestions[0].what.find("more than any one known GPU"), std::string::npos);
}

TEST(Suggestions, SmallerStepsSaveWhatTheyDoNotTake) {
  PlanInput input;
  input.weights_bytes = 1000;
  input.runtime_bytes = 500;
  input.memory_bytes = 1200;
  input.context = 16;
  const auto smaller = [&] {
    const MemoryPlan plan = plan_memory(input);
    const Suggestion* way = suggestion_with(plan, "steps of 128 tokens");
    return way != nullptr && way->saves_bytes == 400 && way->fits;
  };
  EXPECT_FALSE(smaller());
  input.smaller_steps = {128, 100};
  EXPECT_TRUE(smaller());
  input.smaller_steps = {128, 400};  // saves too little
  EXPECT_FALSE(smaller());
}

}  // namespace
}  // namespace kvasir
