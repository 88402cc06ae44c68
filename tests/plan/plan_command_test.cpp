#include "cli/plan_command.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plan/runtime.h"

namespace kvasir {
namespace {

PlanOptions options_of(const char* model, std::int64_t context, const char* memory) {
  PlanOptions options;
  options.model = model;
  options.context = context;
  options.memory = memory;
  return options;
}

nlohmann::json json_of(const PlanOptions& options) {
  return nlohmann::json::parse(plan_as_json(make_plan_report(options)));
}

TEST(PlanCommand, JsonHasTheNumbersOfTheExample) {
  const nlohmann::json plan = json_of(options_of("llama-3.1-8b", 65536, "24GB"));
  EXPECT_EQ(plan["model"], "llama-3.1-8b");
  EXPECT_EQ(plan["parameters"], 8'030'261'248);
  EXPECT_EQ(plan["weights_bytes"], 16'060'522'496);
  EXPECT_EQ(plan["context"], 65536);
  EXPECT_EQ(plan["users"], 1);
  EXPECT_EQ(plan["kv"]["k_format"], "f16");
  EXPECT_EQ(plan["kv"]["v_format"], "f16");
  EXPECT_EQ(plan["kv"]["bytes_per_token"], 131072);
  EXPECT_EQ(plan["kv"]["bytes_per_block"], 2097152);
  EXPECT_EQ(plan["kv"]["bytes_per_request"], 8'589'934'592);
  EXPECT_EQ(plan["kv"]["bytes_total"], 8'589'934'592);
  EXPECT_EQ(plan["kv"]["groups"].size(), 1U);
  EXPECT_EQ(plan["max_batch_tokens"], 512);
  EXPECT_EQ(plan["runtime_bytes"], 533'106'688);
  EXPECT_EQ(plan["total_bytes"], 16'060'522'496 + 8'589'934'592 + 533'106'688);
  EXPECT_EQ(plan["memory_bytes"], 24'000'000'000);
  EXPECT_EQ(plan["fits"], false);
  EXPECT_EQ(plan["max_context"], 56496);
  EXPECT_EQ(plan["max_users"], 0);
  for (const nlohmann::json& way : plan["ways_out"]) {
    EXPECT_TRUE(way.contains("what") && way.contains("saves_bytes") && way.contains("then_total_bytes") &&
                way.contains("fits"));
  }
  EXPECT_EQ(json_of(options_of("llama-3.1-8b", 32768, "24GB"))["fits"], true);
}

// A draft model follows every sequence: its weights and its rows are in the sum, and what fits is less.
TEST(PlanCommand, CountsWhatDrafts) {
  const nlohmann::json without = json_of(options_of("llama-3.1-8b", 8192, "24GB"));
  PlanOptions options = options_of("llama-3.1-8b", 8192, "24GB");
  options.draft = "llama-3.2-1b";
  const nlohmann::json plan = json_of(options);
  const nlohmann::json draft = json_of(options_of("llama-3.2-1b", 8192, ""));
  EXPECT_EQ(plan["draft"]["model"], "llama-3.2-1b");
  EXPECT_EQ(plan["draft"]["weights_bytes"], draft["weights_bytes"]);
  EXPECT_EQ(plan["total_bytes"].get<std::uint64_t>(),
            without["total_bytes"].get<std::uint64_t>() + draft["total_bytes"].get<std::uint64_t>() -
                program_bytes("cpu"));  // there is one program
  EXPECT_EQ(plan["kv"]["groups"].size(), 2U);
  EXPECT_EQ(plan["kv"]["groups"][1]["of"], "draft");
  EXPECT_LT(plan["max_users"], without["max_users"]);
  // The layer that a checkpoint has behind its last one.
  options = options_of("deepseek-v3", 8192, "");
  options.draft = "mtp";
  const nlohmann::json head = json_of(options);
  const nlohmann::json alone = json_of(options_of("deepseek-v3", 8192, ""));
  EXPECT_GT(head["draft"]["weights_bytes"], 11'000'000'000U);  // of 256 experts
  EXPECT_LT(head["draft"]["weights_bytes"], 12'000'000'000U * 2);
  EXPECT_EQ(head["kv"]["bytes_per_token"].get<std::int64_t>() * 61,
            alone["kv"]["bytes_per_token"].get<std::int64_t>() * 62);
  EXPECT_NE(plan_as_text(make_plan_report(options)).find("draft weights"), std::string::npos);
  options = options_of("llama-3.1-8b", 8192, "");
  options.draft = "mtp";
  EXPECT_THROW(make_plan_report(options), Error);
}

TEST(PlanCommand, WithoutMemoryTheVerdictIsNull) {
  const nlohmann::json plan = json_of(options_of("tales", 0, ""));
  EXPECT_EQ(plan["context"], 2048);  // the model's own
  for (const char* key : {"memory_bytes", "fits", "max_context", "max_users"})
    EXPECT_TRUE(plan[key].is_null()) << key;
  EXPECT_TRUE(plan["ways_out"].empty());
}

TEST(PlanCommand, TheFirstLineIsTheVerdict) {
  const auto first_line = [](const PlanOptions& options) {
    const std::string text = plan_as_text(make_plan_report(options));
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(first_line(options_of("llama-3.1-8b", 65536, "24GB")),
            "llama-3.1-8b does not fit in 24.00 GB: needs 25.18 GB, 1.18 GB too much");
  EXPECT_EQ(first_line(options_of("llama-3.1-8b", 32768, "24GB")),
            "llama-3.1-8b fits in 24.00 GB, barely: needs 20.89 GB, 3.11 GB to spare");
  EXPECT_EQ(first_line(options_of("tales", 2048, "")), "tales needs 150 MB");
}

TEST(PlanCommand, WeightsDtypeGpuAndReserve) {
  PlanOptions options = options_of("llama-3.2-1b", 1024, "");
  options.gpu = "h100";
  options.weights_dtype = "f32";
  options.reserve = "2GB";
  const nlohmann::json plan = json_of(options);
  EXPECT_EQ(plan["weights_bytes"], 4 * 1'235'814'400LL);
  EXPECT_EQ(plan["memory_bytes"], 80'000'000'000);
  EXPECT_EQ(plan["max_batch_tokens"], 2048);
  EXPECT_EQ(plan["total_bytes"],
            4 * 1'235'814'400LL + 1024 * 32768 + 2'000'000'000 + plan["runtime_bytes"].get<std::int64_t>());
}

TEST(PlanCommand, NotesWhatAReaderShouldKnow) {
  const PlanReport report = make_plan_report(options_of("tales", 100000, "1GB"));
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_NE(report.notes[0].find("2,048"), std::string::npos);
}

TEST(PlanCommand, StepsAndDevicesDecideTheRuntime) {
  const auto runtime = [](const char* device, int step) {
    PlanOptions options = options_of("llama-3.2-1b", 1024, "");
    options.device = device;
    options.max_batch_tokens = step;
    return json_of(options)["runtime_bytes"].get<std::uint64_t>();
  };
  EXPECT_EQ(runtime("", 0), runtime("cpu", 512));
  EXPECT_EQ(runtime("cuda", 0), runtime("cpu", 2048) - program_bytes("cpu") + program_bytes("cuda"));
  // By the row: logits of a vocabulary of 128,256 in float32 and as much again.
  EXPECT_GT(runtime("cpu", 513) - runtime("cpu", 512), 4U * 128'256);
  EXPECT_LT(runtime("cpu", 513) - runtime("cpu", 512), 8U * 128'256);
  PlanOptions two = options_of("llama-3.2-1b", 1024, "");
  two.gpu = "2xh100";
  EXPECT_EQ(json_of(two)["runtime_bytes"], runtime("cuda", 0) + program_bytes("cuda"));
  two.device = "tpu";
  EXPECT_THROW(make_plan_report(two), Error);
}

TEST(PlanCommand, APolicyDecidesBytesAndIsNamed) {
  PlanOptions options = options_of("llama-3.1-8b", 65536, "24GB");
  options.kv = "v=f32, k=bf16, sinks=4, window=4096";
  const nlohmann::json plan = json_of(options);
  EXPECT_EQ(plan["kv"]["policy"], "k=bf16, v=f32, window=4096, sinks=4");
  EXPECT_EQ(plan["kv"]["bytes_per_token"], 131072 / 2 * 3);
  EXPECT_EQ(plan["kv"]["groups"][0]["window"], 4096);
  EXPECT_EQ(plan["kv"]["groups"][0]["blocks_per_request"],
            258);  // the window's, one that it only touches, the sinks'
  EXPECT_NE(plan_as_text(make_plan_report(options)).find("k=bf16, v=f32, window=4096"), std::string::npos);
}

TEST(PlanCommand, LayersWithFormatsOfTheirOwnAreGroups) {
  PlanOptions options = options_of("tales", 1024, "");
  options.kv = "int4, 0-1:int8/int4, 9:f16";  // a row of 64: 34 bytes in int4, 66 in int8, 128 in f16
  const nlohmann::json plan = json_of(options);
  EXPECT_EQ(plan["kv"]["policy"], "int4, 0-1:int8/int4, 9:f16");
  EXPECT_EQ(plan["kv"]["bytes_per_token"], 2 * (7 * (34 + 34) + 2 * (66 + 34) + 2 * 128));
  ASSERT_EQ(plan["kv"]["groups"].size(), 3U);
  EXPECT_EQ(plan["kv"]["groups"][0]["layers"], 2);
  EXPECT_EQ(plan["kv"]["groups"][0]["k_format"], "int8");
  EXPECT_EQ(plan["kv"]["groups"][0]["v_format"], "int4");
  EXPECT_NE(plan_as_text(make_plan_report(options)).find("7 layers int4        keep all tokens"), std::string::npos)
      << plan_as_text(make_plan_report(options));
  options.kv = "int4, 10:int8";
  EXPECT_THROW(make_plan_report(options), Error);
}

TEST(PlanCommand, APolicyMayLieInAFile) {
  const std::string path = ::testing::TempDir() + "plan_test.policy";
  PlanOptions options = options_of("tales", 1024, "");
  options.kv = "@" + path;
  std::ofstream(path) << "# a mix\n\nint4,   # all but these:\r\n  0-1: int8/int4, 9:f16\nwindow=64\n";
  EXPECT_EQ(json_of(options)["kv"]["policy"], "int4, 0-1:int8/int4, 9:f16, window=64");
  for (const char* wrong : {"", "# nothing\n", "int4\nint9\n"}) {
    std::ofstream(path) << wrong;
    try {
      make_plan_report(options);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  }
  std::remove(path.c_str());
  EXPECT_THROW(make_plan_report(options), Error);
}

TEST(PlanCommand, BadInputIsAnError) {
  for (const auto& [field, value] : std::initializer_list<std::pair<std::string PlanOptions::*, const char*>>{
           {&PlanOptions::model, "no-such-model"},
           {&PlanOptions::kv, "f17"},
           {&PlanOptions::weights_dtype, "int3"},
           {&PlanOptions::memory, "much"},
           {&PlanOptions::gpu, "voodoo"},
           {&PlanOptions::reserve, "-1GB"}}) {
    PlanOptions options = options_of("tales", 16, "");
    options.*field = value;
    EXPECT_THROW(make_plan_report(options), Error) << value;
  }
}

TEST(PlanCommand, CommandLine) {
  const auto output_of = [](std::vector<std::string> arguments) {
    CLI::App app;
    add_plan_command(app);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants a vector
    testing::internal::CaptureStdout();
    try {
      app.parse(arguments);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  };
  const std::string text = output_of({"plan", "-m", "llama-3.1-8b", "-c", "65536", "--memory", "24GB", "--json"});
  EXPECT_EQ(nlohmann::json::parse(text)["fits"], false);
  EXPECT_NE(output_of({"plan", "-m", "tales", "-u", "4", "--block-size", "32"}).find("4 users"), std::string::npos);
  EXPECT_THROW(output_of({"plan"}), Error);
  EXPECT_THROW(output_of({"plan", "-m", "tales", "--sweep", "memory=1G..2G"}), Error);  // of a trace
  EXPECT_THROW(output_of({"plan", "-m", "tales", "--json", "--markdown"}), CLI::ParseError);
  EXPECT_NE(output_of({"plan", "-m", "tales", "--markdown"}).find("| KV per token | "), std::string::npos);
  EXPECT_THROW(output_of({"plan", "-m", "tales", "-c", "0"}), CLI::ParseError);
  EXPECT_THROW(output_of({"plan", "-m", "tales", "-u", "-3"}), CLI::ParseError);
  EXPECT_THROW(output_of({"plan", "-m", "tales", "--block-size", "0"}), CLI::ParseError);
  EXPECT_THROW(output_of({"plan", "-m", "tales", "--memory", "1GB", "--gpu", "h100"}), CLI::ParseError);
  EXPECT_THROW(output_of({"plan", "-m", "nonesuch"}), Error);
}

}  // namespace
}  // namespace kvasir
