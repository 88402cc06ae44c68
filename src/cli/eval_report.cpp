#include "cli/eval_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "eval/policy_engine.h"

namespace kvasir {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

nlohmann::json policy_json(const PolicyReport& one) {
  nlohmann::json json{{"policy", one.policy},
                      {"bytes_per_token", one.bytes_per_token},
                      {"compression_against_f16", one.compression},
                      {"perplexity", one.perplexity},
                      {"perplexity_change", one.perplexity_change},
                      {"kl", {{"mean", one.mean_kl}, {"p99", one.kl_99}, {"max", one.most_kl}}},
                      {"same_top1", one.same_top}};
  if (!one.needles.empty()) json["needles"] = {{"found", one.all_needles}, {"by_depth", one.needles}};
  for (const DecodeSpeed& speed : one.speed) {
    json["decode"].push_back(
        {{"depth", speed.depth}, {"tokens_per_second", speed.tokens_per_second}, {"against_f16", speed.against_f16}});
  }
  return json;
}

}  // namespace

EvalReport report_of(const Evaluation& evaluation, const Model& model) {
  const EvalPlan& plan = evaluation.plan();
  EvalReport report;
  report.context = plan.windows.cut().context;
  report.stride = plan.windows.cut().stride;
  report.windows = plan.windows.count();
  report.judged_tokens = plan.windows.judged();
  if (plan.needles) {
    report.needle_cases = plan.needles->cases;
    report.needle_chance = plan.needles->chance();
  }
  const auto tokens = static_cast<double>(report.context);
  const EngineConfig f16 = with_policy(evaluation.configs().front(), "f16");
  const auto f16_bytes = static_cast<double>(cache_bytes(model, f16, report.context));
  const double reference = evaluation.progress().front().quality.perplexity();
  for (size_t i = 0; i < plan.policies.size(); ++i) {
    const PolicyProgress& progress = evaluation.progress()[i];
    const auto bytes = static_cast<double>(cache_bytes(model, evaluation.configs()[i], report.context));
    PolicyReport& one = report.policies.emplace_back();
    one.policy = plan.policies[i];
    one.bytes_per_token = bytes / tokens;
    one.compression = f16_bytes / bytes;
    one.perplexity = progress.quality.perplexity();
    one.perplexity_change = one.perplexity / reference - 1;
    one.mean_kl = progress.quality.mean_kl();
    one.kl_99 = progress.quality.kl_99();
    one.most_kl = progress.quality.most_kl();
    one.same_top = progress.quality.top_agreement();
    if (!plan.needles) continue;
    for (const int found : progress.found) one.needles.push_back(share(found, plan.needles->cases));
    one.all_needles = share(std::reduce(progress.found.begin(), progress.found.end()), plan.needles->all_cases());
  }
  return report;
}

void print_table(const EvalReport& report) {
  fmt::print("{} on {}\n", report.model, report.backend);
  fmt::print("{} tokens of {} judged, in {} windows of {}, compared with {} KV\n\n", report.judged_tokens,
             report.text, report.windows, report.context, kReferencePolicy);
  size_t width = 6;
  for (const PolicyReport& one : report.policies) width = std::max(width, one.policy.size());
  fmt::print("{:<{}} {:>11} {:>8} {:>11} {:>9} {:>9} {:>9} {:>9}", "policy", width, "bytes/token", "of f16",
             "perplexity", "change", "KL mean", "KL p99", "top-1");
  if (report.needle_cases > 0) fmt::print(" {:>8}", "needles");
  for (const DecodeSpeed& speed : report.policies.front().speed)
    fmt::print(" {:>14}", fmt::format("decode @{}", speed.depth));
  fmt::print("\n");
  for (const PolicyReport& one : report.policies) {
    fmt::print("{:<{}} {:>11.1f} {:>8} {:>11.4f} {:>9} {:>9.2e} {:>9.2e} {:>9}", one.policy, width,
               one.bytes_per_token, fmt::format("1/{:.2f}", one.compression), one.perplexity,
               fmt::format("{:+.3f}%", 100 * one.perplexity_change), one.mean_kl, one.kl_99,
               fmt::format("{:.2f}%", 100 * one.same_top));
    if (report.needle_cases > 0) fmt::print(" {:>8}", fmt::format("{:.0f}%", 100 * one.all_needles));
    for (const DecodeSpeed& speed : one.speed) {
      fmt::print(" {:>14}", fmt::format("{:.2f}x", speed.against_f16));
    }
    fmt::print("\n");
  }
  if (report.needle_cases == 0) return;
  const auto depths = static_cast<int>(report.policies.front().needles.size());
  fmt::print("\nneedles: {} cases; by chance {:.0f}% are found\n", depths * report.needle_cases,
             100 * report.needle_chance);
  fmt::print("{:<{}}", "depth", width);
  for (int i = 0; i < depths; ++i)
    fmt::print(" {:>6}", fmt::format("{:.0f}%", depths > 1 ? 100.0 * i / (depths - 1) : 50.0));
  fmt::print("\n");
  for (const PolicyReport& one : report.policies) {
    fmt::print("{:<{}}", one.policy, width);
    for (const double found : one.needles) fmt::print(" {:>6}", fmt::format("{:.0f}%", 100 * found));
    fmt::print("\n");
  }
}

std::string report_json(const EvalReport& report) {
  nlohmann::json json{{"model", report.model},     {"backend", report.backend},
                      {"text", report.text},       {"reference", kReferencePolicy},
                      {"context", report.context}, {"stride", report.stride},
                      {"windows", report.windows}, {"judged_tokens", report.judged_tokens}};
  if (report.needle_cases > 0) {
    json["needles"] = {{"cases_at_each_depth", report.needle_cases}, {"chance", report.needle_chance}};
  }
  for (const PolicyReport& one : report.policies) json["policies"].push_back(policy_json(one));
  return json.dump(2);
}

std::vector<Chart> report_charts(const EvalReport& report) {
  Chart kl{fmt::format("{}: divergence from {} KV", report.model, kReferencePolicy),
           "bytes per token",
           "mean KL (nats)",
           Chart::Scale::kLog,
           Chart::Scale::kLog,
           {}};
  Chart perplexity = kl;
  perplexity.title = fmt::format("{}: perplexity", report.model);
  perplexity.y_label = "perplexity";
  perplexity.y_scale = Chart::Scale::kLinear;
  for (const PolicyReport& one : report.policies) {
    kl.series.push_back({one.policy, {{one.bytes_per_token, one.mean_kl, {}}}});
    perplexity.series.push_back({one.policy, {{one.bytes_per_token, one.perplexity, {}}}});
  }
  return {kl, perplexity};
}

}  // namespace kvasir
