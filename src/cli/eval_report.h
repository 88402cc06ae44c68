// What an evaluation found, as a table, as JSON and as a picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/evaluation.h"
#include "eval/svg_chart.h"

namespace kvasir {

// Decode speed of one policy behind so many cached tokens.
struct DecodeSpeed {
  std::int64_t depth = 0;
  double tokens_per_second = 0;
  double against_f16 = 0;  // a share of f16's in the same run
};

struct PolicyReport {
  std::string policy;
  double bytes_per_token = 0;  // of a sequence as long as a window
  double compression = 0;      // f16's bytes over these
  double perplexity = 0;
  double perplexity_change = 0;  // against the reference: 0.01 is a hundredth more
  double mean_kl = 0;
  double kl_99 = 0;
  double most_kl = 0;
  double same_top = 0;
  std::vector<double> needles;  // share found, by depth; empty: none were sought
  double all_needles = 0;
  std::vector<DecodeSpeed> speed;  // empty: not measured
};

struct EvalReport {
  std::string model;
  std::string backend;
  std::string text;
  std::int64_t context = 0;
  std::int64_t stride = 0;
  std::int64_t windows = 0;
  std::int64_t judged_tokens = 0;
  int needle_cases = 0;  // at each depth
  double needle_chance = 0;
  std::vector<PolicyReport> policies;
};

// Fills in what the evaluation knows: all but the names, and the speeds.
EvalReport report_of(const Evaluation& evaluation, const Model& model);

void print_table(const EvalReport& report);
std::string report_json(const EvalReport& report);
std::vector<Chart> report_charts(const EvalReport& report);  // quality against bytes

}  // namespace kvasir
