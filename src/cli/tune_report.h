// What tuning found: as a table, as JSON, as a picture, and as a policy file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/eval_report.h"
#include "tune/head_probe.h"
#include "tune/tuner.h"

namespace kvasir {

struct TuneReport {
  TuneSettings settings;
  TuneResult result;
  std::int64_t tuned_tokens = 0;    // of the text it was tuned on
  double reference_perplexity = 0;  // on that text, with f32 KV
  KvFormat head_format = KvFormat::kF32;
  std::optional<HeadHarm> heads;  // nullopt: not measured
  EvalReport judged;              // on text that tuning did not see
  std::string judged_text;        // which that was, in words
};

void print_tune_report(const TuneReport& report);
std::string tune_json(const TuneReport& report);
std::vector<Chart> tune_charts(const TuneReport& report);
std::string policy_file_text(const TuneReport& report);

}  // namespace kvasir
