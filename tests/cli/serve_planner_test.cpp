// The planner behind the server's page answers as `kvasir plan --json` does, to the byte, and opens no files.
#include "cli/serve_planner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/plan_command.h"

namespace kvasir {
namespace {

TEST(ServePlanner, AnswersAsTheCommandDoes) {
  const std::string model = KVASIR_SOURCE_DIR "/models/tales-draft";
  const Planner planner = make_planner(model, "served", "f16");
  for (const char* name : {"", "llama-3.1-8b", "gemma-2-9b"}) {
    for (const std::int64_t context : {std::int64_t{1024}, std::int64_t{131072}}) {
      for (const char* gpu : {"", "RTX 4090"}) {
        PlanOptions options;
        options.model = *name == '\0' ? model : name;
        options.context = context;
        options.users = 7;
        options.kv = "int8, sinks=4, window=512";
        options.gpu = gpu;
        options.reserve = "1GB";
        const PlanQuestion asked{
            .model = name, .context = context, .users = 7, .kv = options.kv, .gpu = gpu, .reserve = "1GB"};
        PlanReport report = make_plan_report(options);
        if (*name == '\0') report.model.name = "served";  // where it lies is nobody's business
        EXPECT_EQ(planner.plan(asked), plan_as_json(report));
      }
    }
  }
}

TEST(ServePlanner, TakesNamesAndNoFiles) {
  const Planner planner = make_planner(KVASIR_SOURCE_DIR "/models/tales-draft", "served", "f16");
  EXPECT_THROW(planner.plan({.model = KVASIR_SOURCE_DIR "/models/tales"}), Error);
  EXPECT_THROW(planner.plan({.model = "layers=2,hidden=64"}), Error);
  const auto choices = nlohmann::json::parse(planner.choices());
  EXPECT_GT(choices["models"].size(), 20U);
  EXPECT_FALSE(choices["gpus"].empty());
}

}  // namespace
}  // namespace kvasir
