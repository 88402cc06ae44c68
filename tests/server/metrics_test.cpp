// The page Prometheus reads.
#include "server/metrics.h"

#include <gtest/gtest.h>

#include <regex>
#include <sstream>

namespace kvasir::testing {
namespace {

TEST(Metrics, CountsAndNames) {
  Metrics metrics("m\"x\\");
  metrics.first_token(0.03);
  metrics.first_token(1000);
  metrics.next_token(0.001);
  metrics.finished(
      {.prompt_tokens = 10, .reused_tokens = 4, .generated_tokens = 3, .seconds = 0.2, .reason = "stop"});
  metrics.replied(200);
  EngineNumbers engine;
  engine.blocks = 10;
  engine.held_blocks = 4;
  engine.hit_tokens = 1'000'000'000'000;
  engine.tenants.push_back(
      {"alice", {.queried_tokens = 9, .hit_tokens = 8, .blocks = 7, .bytes = 6, .evicted_blocks = 5}});
  engine.block_lifetime = Histogram({1, 10});
  engine.block_lifetime.observe(4);
  const std::string page = metrics.render(engine);
  const std::string label = R"({model_name="m\"x\\"})";
  for (const std::string& line :
       {"vllm:prompt_tokens_total" + label + " 10", "vllm:generation_tokens_total" + label + " 3",
        "vllm:kv_cache_usage_perc" + label + " 0.4", "vllm:prefix_cache_hits_total" + label + " 1000000000000",
        std::string(R"(vllm:request_success_total{model_name="m\"x\\",finished_reason="stop"} 1)"),
        std::string(R"(vllm:time_to_first_token_seconds_bucket{model_name="m\"x\\",le="0.04"} 1)"),
        std::string(R"(vllm:time_to_first_token_seconds_bucket{model_name="m\"x\\",le="80"} 1)"),
        std::string(R"(vllm:time_to_first_token_seconds_bucket{model_name="m\"x\\",le="+Inf"} 2)"),
        std::string(R"(kvasir:tenant_prefix_cache_queries_total{model_name="m\"x\\",tenant="alice"} 9)"),
        std::string(R"(kvasir:tenant_prefix_cache_hits_total{model_name="m\"x\\",tenant="alice"} 8)"),
        std::string(R"(kvasir:tenant_kv_blocks{model_name="m\"x\\",tenant="alice"} 7)"),
        std::string(R"(kvasir:tenant_kv_bytes{model_name="m\"x\\",tenant="alice"} 6)"),
        std::string(R"(kvasir:tenant_kv_evicted_blocks_total{model_name="m\"x\\",tenant="alice"} 5)"),
        std::string(R"(vllm:kv_block_lifetime_seconds_bucket{model_name="m\"x\\",le="10"} 1)"),
        "vllm:time_to_first_token_seconds_count" + label + " 2",
        std::string(R"(vllm:inter_token_latency_seconds_bucket{model_name="m\"x\\",le="0.001"} 1)")}) {
    EXPECT_NE(page.find("\n" + line + "\n"), std::string::npos) << line << "\n" << page;
  }
}

TEST(Metrics, EveryLineIsOfTheTextFormat) {
  Metrics metrics("tales");
  metrics.replied(404);
  std::istringstream page(metrics.render({}));
  const std::regex sample(R"([a-z_:]+[a-z0-9_:]*\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\} -?[0-9.e+-]+)");
  const std::regex comment("# (HELP|TYPE) [a-z0-9_:]+ .+");
  int lines = 0;
  for (std::string line; std::getline(page, line); ++lines) {
    EXPECT_TRUE(std::regex_match(line, sample) || std::regex_match(line, comment)) << line;
  }
  EXPECT_GT(lines, 50);
}

}  // namespace
}  // namespace kvasir::testing
