// kvasir bench --draft: answers with drafters and without, in turns, so that a machine that changes its speed changes
// it for both.
//
// What a model of random weights says copies nothing. So a task may say what the answer is: all but its next token
// are masked, while every pass, every verification and every guess is computed as ever.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/model_options.h"
#include "engine/engine.h"

namespace kvasir {

struct DraftTest {
  std::string task;
  int batch = 1;
  std::int64_t prompt = 512;
  std::int64_t generate = 128;
  std::span<const TokenId> text{};  // of the task "text"
};

struct DraftResult {
  DraftTest test;
  std::vector<double> plain;    // seconds, one a repeat
  std::vector<double> drafted;  // likewise
  SpeculationCounts counts;

  double tokens() const { return static_cast<double>(test.batch * test.generate); }
  double speedup() const;  // the median of the repeats' ratios
};

class DraftBench {
 public:
  // `config` names the drafters. All outlive this.
  DraftBench(Backend& backend, Model& model, EngineConfig config, std::span<const EngineModel> more)
      : backend_(backend), model_(model), config_(std::move(config)), more_(more) {}

  // The names of tasks, each with what its answers are.
  struct Task {
    std::string_view name;
    std::string_view what;
  };
  static std::span<const Task> tasks();

  // A first, unmeasured repeat warms up. Throws Error for a task that there is not.
  DraftResult run(const DraftTest& test, int repeats, const std::function<void()>& after_each);

 private:
  EngineConfig config_for(const DraftTest& test) const;
  double once(Engine& engine, const DraftTest& test, std::uint64_t seed) const;

  Backend& backend_;
  Model& model_;
  EngineConfig config_;
  std::span<const EngineModel> more_;
};

struct DraftBenchOptions {
  ModelOptions model;
  std::vector<std::string> tasks;  // none: all, of a text that one
  std::string text;                // a file
  std::vector<int> batches;
  std::int64_t prompt = 256;
  std::int64_t generate = 128;
  int repeats = 3;
};

// Every task with every batch, beside the draft model that the options name.
std::vector<DraftResult> bench_drafts(const DraftBenchOptions& options, const EngineConfig& config, Backend& backend,
                                      Model& model);

void print_drafts(std::span<const DraftResult> results);
nlohmann::ordered_json drafts_json(std::span<const DraftResult> results);

}  // namespace kvasir
