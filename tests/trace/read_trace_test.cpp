// The public formats, and what they say of texts.
#include "trace/read_trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace kvasir {
namespace {

class ReadTraceTest : public ::testing::Test {
 protected:
  ReadTraceTest() { std::filesystem::create_directories(folder_); }
  ~ReadTraceTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  RequestTrace read(const std::string& text) const { return read_trace(std::array{file("trace", text)}); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvasir_traces_" + std::to_string(::getpid()));
};

constexpr const char* kMooncakeLines =
    R"({"timestamp": 27000, "input_length": 1200, "output_length": 52, "hash_ids": [46, 47, 48]})"
    "\n"
    R"({"timestamp": 30500, "input_length": 1100, "output_length": 26, "hash_ids": [46, 47, 1048]})"
    "\n"
    R"({"timestamp": 27500, "input_length": 900, "output_length": 1, "hash_ids": [50, 51]})"
    "\n";

TEST_F(ReadTraceTest, Mooncakes) {
  const RequestTrace trace = read(kMooncakeLines);
  EXPECT_FALSE(trace.config);
  ASSERT_EQ(trace.requests.size(), 3U);
  EXPECT_DOUBLE_EQ(trace.requests[0].at, 0);
  EXPECT_DOUBLE_EQ(trace.requests[1].at, 0.5);  // by the time they came
  EXPECT_DOUBLE_EQ(trace.requests[2].at, 3.5);
  EXPECT_EQ(trace.requests[0].prompt_tokens, 1200);
  EXPECT_EQ(trace.requests[0].answer_tokens, 52);
  const std::vector<TokenId> a = tokens_of(trace.requests[0], 0);
  const std::vector<TokenId> b = tokens_of(trace.requests[1], 1);
  const std::vector<TokenId> c = tokens_of(trace.requests[2], 2);
  EXPECT_EQ(a.size(), 1252U);
  EXPECT_EQ(b.size(), 901U);
  EXPECT_LT(std::ranges::mismatch(a, b).in1 - a.begin(), 4);
  EXPECT_GE(std::ranges::mismatch(a, c).in1 - a.begin(), 1024);
  EXPECT_LT(std::ranges::mismatch(a, c).in1 - a.begin(), 1028);
  for (const TokenId token : a) EXPECT_TRUE(token >= 0 && token < kTraceVocab);
}

TEST_F(ReadTraceTest, Azures) {
  const RequestTrace trace = read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 23:59:59.5000000,4808,10\r\n"
      "2023-11-17 00:00:01.2500000,110,27\n"
      "2023-11-17 00:00:02+00:00,7,0\n");
  ASSERT_EQ(trace.requests.size(), 3U);
  EXPECT_DOUBLE_EQ(trace.requests[0].at, 0);
  EXPECT_NEAR(trace.requests[1].at, 1.75, 1e-5);
  EXPECT_NEAR(trace.requests[2].at, 2.5, 1e-5);
  EXPECT_EQ(trace.requests[0].prompt_tokens, 4808);
  EXPECT_EQ(trace.requests[1].answer_tokens, 27);
  EXPECT_EQ(trace.requests[2].answer_tokens, 1);  // a request without an answer is none
  const std::vector<TokenId> a = tokens_of(trace.requests[0], 0);
  const std::vector<TokenId> b = tokens_of(trace.requests[1], 1);
  EXPECT_LT(std::ranges::mismatch(a, b).in1 - a.begin(), 3);
}

TEST_F(ReadTraceTest, WhatIsWrongIsSaid) {
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (const std::string& text :
       {azure + "yesterday,1,2\n", azure + "2023-13-16 10:00:00,1,2\n", azure + "2023-11-16 10:00:00,0,2\n",
        azure + "2023-11-16 10:00:00,1\n", std::string("TIMESTAMP,Tokens\n"),
        std::string(R"({"timestamp": 1, "input_length": 0, "output_length": 5, "hash_ids": []})"),
        std::string(R"({"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [1, 2]})"),
        std::string(R"({"timestamp": 1, "input_length": 5, "output_length": 5})")}) {
    EXPECT_THROW(read(text), Error) << text;
  }
  EXPECT_THROW(read_trace(std::array{folder_ / "nonesuch"}), Error);
  EXPECT_THROW(read_trace(std::array{folder_}), Error);
}

TEST_F(ReadTraceTest, CostsOfABench) {
  const auto bench = file("bench", R"({
  "model": "tales",
  "results": [
    {"test": "prefill", "tokens": 1024, "depth": 0, "batch": 1, "median_seconds": 0.4},
    {"test": "prefill", "tokens": 1024, "depth": 1024, "batch": 1, "median_seconds": 0.5},
    {"test": "decode", "tokens": 64, "depth": 512, "batch": 4, "median_seconds": 0.64}
  ]
})");
  const StepCostModel model(read_costs(bench));
  EXPECT_NEAR(model.seconds({512, 512 * 512, 1}), 0.2, 0.02);
  EXPECT_NEAR(model.seconds({4, 4 * 544, 4}), 0.01, 1e-3);
  EXPECT_GT(model.key_seconds(), 0);
  EXPECT_THROW(read_costs(file("none", "{\"results\": []}")), Error);
  EXPECT_THROW(read_costs(file("other", "hello")), Error);
}

}  // namespace
}  // namespace kvasir
