// kvasir plan: what a model and its cache will take, before anything is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/kv_policy.h"
#include "model/known_models.h"
#include "plan/plan.h"

namespace CLI {
class App;
}

namespace kvasir {

// As typed. Empty and 0 mean: not given.
struct PlanOptions {
  std::string model;
  std::int64_t context = 0;  // default: the model's own
  std::int64_t users = 1;
  std::string kv = "f16";
  std::string weights_dtype;  // default: as the config says
  std::string draft;          // "mtp", or what a draft model or head is called; empty: nobody drafts
  std::string memory;
  std::string gpu;
  std::string reserve;
  std::string device;        // "cpu" or "cuda"; default: cuda of a --gpu, otherwise cpu
  int max_batch_tokens = 0;  // 0: as suits the device
  int block_tokens = kDefaultBlockTokens;
};

struct PlanReport {
  NamedShape model;
  DType weights_dtype = DType::kBF16;
  KvPolicy kv;
  PlanInput input;
  std::string draft;                // what drafts; empty: nobody
  std::uint64_t draft_weights = 0;  // of input.weights_bytes
  int max_batch_tokens = 0;
  MemoryPlan plan;
  std::int64_t gpus = 1;
  std::vector<std::string> notes;  // what a reader should know before believing the numbers
};

// Throws Error on a model, format, size or GPU that is not known.
PlanReport make_plan_report(const PlanOptions& options);
PlanReport make_plan_report(NamedShape model, const PlanOptions& options);  // of a model that was looked up before

std::string plan_as_text(const PlanReport& report);
std::string plan_as_json(const PlanReport& report);
std::string plan_as_markdown(const PlanReport& report);

// Registers the subcommand. Its callback prints to stdout and throws Error on bad input. A plan that does not
// fit is an answer, not a failure: the exit code is 0.
void add_plan_command(CLI::App& app);

}  // namespace kvasir
