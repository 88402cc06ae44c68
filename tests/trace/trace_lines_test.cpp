// What is written is read back, and what is no trace is refused with the line.
#include "trace/trace_lines.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "trace/read_trace.h"

namespace kvasir {
namespace {

TraceConfig some_config() {
  TraceConfig out;
  out.id = "abc";
  out.time = "2026-08-01T12:00:00.123Z";
  out.model = "tales";
  out.device = "cpu";
  out.samples = TraceConfig::Samples::kOnDevice;
  EngineConfig& engine = out.engine;
  engine.kv = parse_kv_policy("int8, window=64, sinks=4", "test");
  engine.kv_also = {parse_kv_policy("f16", "test")};
  engine.others = EngineConfig::OtherPolicies::kAny;
  engine.internal_policies = {parse_kv_policy("f32", "test")};
  engine.block_tokens = 32;
  engine.context = 777;
  engine.kv_bytes = 12345678;
  engine.swap_bytes = 42;
  engine.eviction = "cost";
  engine.reuse = CacheConfig::Reuse::kOff;
  engine.pinned_share = 0.25;
  engine.scheduler = {99, 17, 5, 2};
  return out;
}

TracedRequest some_request() {
  TracedRequest out;
  out.at = 1.25;
  out.id = 9;
  out.twin_of = 8;
  out.prompt_tokens = 3;
  out.answer_tokens = 2;
  out.max_tokens = 50;
  out.finish = FinishReason::kStop;
  out.tags = "aabbccddee";
  out.tenant = 4;
  out.share = TenantShare{0.25, 0.5, 3};
  out.kv = "int8";
  out.breakpoints = {{2, std::chrono::seconds(300)}};
  out.priority = -1;
  out.measured = MeasuredRequest{1, 4, 2, 1, 5, 2, 0.5, 0.75, 2.5};
  return out;
}

RequestTrace read_back(const std::string& text) {
  std::istringstream in(text);
  RequestTrace out;
  read_trace(in, "the trace", out);
  return out;
}

std::string heading() { return trace_line(some_config()) + "\n"; }

TEST(TraceLines, AConfigIsReadBack) {
  const RequestTrace trace = read_back(heading());
  ASSERT_TRUE(trace.config);
  EXPECT_EQ(trace_line(*trace.config), trace_line(some_config()));
  EXPECT_EQ(trace.config->samples, TraceConfig::Samples::kOnDevice);
  EXPECT_EQ(trace.config->engine.kv, some_config().engine.kv);
  EXPECT_EQ(trace.config->engine.swap_bytes, 42U);
  EXPECT_EQ(trace.config->engine.scheduler.max_sequences, 17);
}

TEST(TraceLines, ARequestIsReadBack) {
  const RequestTrace trace = read_back(heading() + trace_line(some_request()) + "\n");
  ASSERT_EQ(trace.requests.size(), 1U);
  EXPECT_EQ(trace_line(trace.requests[0]), trace_line(some_request()));
  EXPECT_EQ(trace.requests[0].measured->waits, 1);
  EXPECT_EQ(trace.requests[0].share, (TenantShare{0.25, 0.5, 3}));
}

TEST(TraceLines, StepsAreReadBack) {
  StepCosts costs;
  costs.add(StepTime{4, 2, 100, 0.125});
  costs.swap_bytes_per_second = 5e9;
  const RequestTrace trace = read_back(heading() + trace_line(costs) + "\n" + trace_line(costs) + "\n");
  ASSERT_EQ(trace.costs.cells().size(), 1U);
  EXPECT_EQ(trace.costs.cells()[0].steps, 2);
  EXPECT_DOUBLE_EQ(trace.costs.cells()[0].seconds, 0.25);
  EXPECT_EQ(trace.costs.swap_bytes_per_second, 5e9);
}

// A full disk tears a line, and says how many it lost once there is room again.
TEST(TraceLines, TornAndLostLinesAreCounted) {
  const std::string line = trace_line(some_request());
  const RequestTrace trace = read_back(heading() + line.substr(0, 40) + "\n" + lost_line(3) + "\n" + line + "\n" +
                                       R"({"source":12})" + "\n");
  EXPECT_EQ(trace.unread_lines, 1);
  EXPECT_EQ(trace.lost_lines, 3);
  EXPECT_EQ(trace.other_requests, 1);
  EXPECT_EQ(trace.requests.size(), 1U);
}

TEST(TraceLines, AFileThatGoesOnAndAnothersAreToldApart) {
  EXPECT_EQ(read_back(heading() + heading()).requests.size(), 0U);
  TraceConfig other = some_config();
  other.id = "other";
  EXPECT_THROW(read_back(heading() + trace_line(other) + "\n"), Error);
}

TEST(TraceLines, WhatIsWrongIsSaidWithItsLine) {
  const auto problem_of = [](const std::string& text) -> std::string {
    try {
      read_back(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  TracedRequest short_tags = some_request();
  short_tags.tags = "aa";
  EXPECT_NE(problem_of(heading() + trace_line(short_tags)).find("line 2"), std::string::npos);
  std::string newer = heading();
  newer.replace(newer.find(":1"), 2, ":2");
  EXPECT_NE(problem_of(newer).find("version"), std::string::npos) << problem_of(newer);
  for (const char* text : {"", "\n", "hello\n", "{}\n", "[1]\n", "{\"prompt\":3}\n", "a,b\n1,2\n"}) {
    EXPECT_NE(problem_of(text), "nothing") << text;
  }
}

}  // namespace
}  // namespace kvasir
