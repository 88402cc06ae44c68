// Requests of different KV policies run in the same batches over one memory, and each is to the bit what it is alone.
#include <gtest/gtest.h>

#include "base/error.h"
#include "laws/harness.h"

namespace kvasir::testing {
namespace {

std::vector<KvPolicy> eight_policies() {
  std::vector<KvPolicy> out;
  for (const char* text : {"f32", "f16", "int8", "k=f32, v=bf16", "k=int8, v=int4, 1:f16/int2", "f16, window=24",
                           "bf16, window=16, sinks=4", "int4, recent=20:bf16, sinks=4"}) {
    out.push_back(parse_kv_policy(text, "test"));
  }
  return out;
}

// Policies bring their own formats: of the matrix only one format is needed. T5 refuses some of them; see
// source_laws_test.cpp.
std::vector<Cell> cells() {
  std::vector<Cell> out = scheduling_cells();
  std::erase_if(out,
                [](const Cell& cell) { return cell.policy != uniform_policy(KvFormat::kF16) || reads_source(cell); });
  return out;
}

class PolicyLaw : public ::testing::TestWithParam<Cell> {
 protected:
  // Two requests a policy; prompts begin alike across policies.
  static std::vector<Request> sixteen() {
    std::vector<Request> requests;
    const std::vector<KvPolicy> policies = eight_policies();
    for (std::uint64_t i = 0; i < 16; ++i) {
      requests.push_back(request_of(some_tokens(20 + 9 * static_cast<std::int64_t>(i % 5), i % 3), 12, i));
      requests.back().kv = policies[i % policies.size()];
    }
    return requests;
  }

  static EngineConfig any(EngineConfig config) {
    config.others = EngineConfig::OtherPolicies::kAny;
    return config;
  }

  World world_{GetParam()};
  EngineConfig config_ = any(world_.config());
};

INSTANTIATE_TEST_SUITE_P(Everywhere, PolicyLaw, ::testing::ValuesIn(cells()),
                         [](const auto& cell) { return cell.param.name(); });

TEST_P(PolicyLaw, SixteenRequestsOfEightPoliciesInOneBatchAreEachAsAlone) {
  const std::vector<Request> requests = sixteen();
  std::vector<Trace> alone;
  for (const Request& request : requests) {
    EngineConfig one = world_.config();
    one.kv = *request.kv;
    alone.push_back(run_alone(world_, one, request));
  }
  for (const std::int64_t blocks : {400, 24}) {  // room for all, and for few
    config_.kv_bytes = world_.bytes_for(blocks);
    Engine engine = world_.engine(config_);
    Recorder recorder(engine);
    std::vector<RequestId> ids;
    for (const Request& request : requests) ids.push_back(recorder.submit(request));
    for (int i = 0; i < 3; ++i) engine.step();  // the prompts are longer than one step may be
    EXPECT_TRUE(blocks < 400 || engine.scheduler().running() == 16);
    engine.run();
    for (size_t i = 0; i < requests.size(); ++i) {
      const Trace& trace = recorder.of(ids[i]);
      EXPECT_EQ(trace, alone[i]) << i << ", " << to_text(*requests[i].kv) << ", " << blocks << " blocks";
      EXPECT_EQ(trace.record.kv, to_text(*requests[i].kv));
    }
    EXPECT_GT(engine.cache().stats().moved_pages, 0);
    EXPECT_EQ(engine.cache().problem(), std::nullopt);
  }
}

TEST_P(PolicyLaw, WhatOnePolicyCachedIsNoOthers) {
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  const auto run = [&](const char* policy) {
    Request request = request_of(some_tokens(60, 1), 4);
    request.kv = parse_kv_policy(policy, "test");
    const RequestId id = recorder.submit(request);
    engine.run();
    return recorder.of(id);
  };
  const Trace first = run("bf16");
  const Trace other = run("k=f32, v=f16");
  EXPECT_EQ(other.record.reuse.reused_tokens, 0);
  EXPECT_EQ(other.record.reuse.stop, ReuseStop::kOtherPolicy);
  const Trace again = run("bf16");
  EXPECT_GT(again.record.reuse.reused_tokens, 40);
  EXPECT_EQ(again, first);
}

TEST_P(PolicyLaw, MorePoliciesThanAreKeptComeAndGo) {
  config_.kv_bytes = world_.bytes_for(24);
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  for (int round = 0; round < 2; ++round) {
    for (int window = 8; window < 8 + static_cast<int>(PolicyRegistry::kMostIdle) + 5; ++window) {
      Request request = request_of(some_tokens(40, 1), 2);
      request.kv = KvPolicy{KvFormat::kF16, KvFormat::kF16, {window, 0}};
      const RequestId id = recorder.submit(request);
      engine.run();
      EXPECT_EQ(recorder.of(id).finish, FinishReason::kLength);
      if (round > 0 || window % 8 != 0) continue;
      EngineConfig one = world_.config();
      one.kv = *request.kv;
      EXPECT_EQ(recorder.of(id), run_alone(world_, one, request)) << window;
    }
  }
  EXPECT_LE(engine.policies().all().size(), PolicyRegistry::kMostIdle + 1);
  EXPECT_EQ(engine.cache().problem(), std::nullopt);
}

TEST_P(PolicyLaw, APolicyThatIsNotAllowedIsRefusedAndChangesNothing) {
  EngineConfig listed = world_.config();
  listed.kv_also = {parse_kv_policy("k=f32, v=f16", "test")};
  Engine engine = world_.engine(listed);
  Request request = request_of(some_tokens(20, 1), 4);
  request.kv = listed.kv_also.front();
  engine.check(request);
  request.kv = listed.kv;
  engine.check(request);
  request.kv = parse_kv_policy("f16, window=77", "test");
  try {
    engine.submit(request, {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"f16, window=77\" is not allowed"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("k=f32, v=f16"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(engine.idle());
}

}  // namespace
}  // namespace kvasir::testing
