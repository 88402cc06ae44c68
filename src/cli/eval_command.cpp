#include "cli/eval_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "api/gguf_tokenizer.h"
#include "base/error.h"
#include "cli/bench/bench_runs.h"
#include "cli/eval_report.h"
#include "cli/eval_stream_report.h"
#include "cli/eval_text.h"
#include "cli/model_options.h"
#include "cli/policy_file.h"
#include "cli/progress.h"
#include "eval/policy_engine.h"

namespace kvasir {
namespace {

constexpr std::int64_t kLongestDefaultWindow = 2048;
constexpr std::int64_t kSpeedTokens = 32;
constexpr const char* kStreamPolicy = "f16, window=1020, sinks=4";

struct EvalOptions {
  ModelOptions model;
  std::string text;
  std::vector<std::string> policies;
  std::int64_t context = 0;
  std::int64_t stride = 0;
  std::int64_t tokens = 0;
  int needles = 8;
  int needle_candidates = 10;
  std::vector<std::int64_t> speed;
  std::string svg;
  std::string resume;
  std::optional<std::int64_t> stream;
  std::int64_t reread = 0;
  bool json = false;
};

std::int64_t window_of(const EvalOptions& options, const ModelSpec& config) {
  if (options.context == 0) return std::min<std::int64_t>(config.context, kLongestDefaultWindow);
  if (options.context < 0 || options.context > config.context) {
    fail_usage(fmt::format("windows of {} tokens, and the model was trained for {}", options.context, config.context),
               "--ctx", fmt::format("use {} or less", config.context));
  }
  return options.context;
}

std::vector<TokenId> text_of(const EvalOptions& options, const Tokenizer& tokenizer) {
  std::vector<TokenId> tokens = tokens_of_file(options.text, tokenizer);
  if (options.tokens < 0) fail_usage("a count of tokens is not negative", "--tokens", "0 takes the whole text");
  if (options.tokens > 0 && options.tokens < std::ssize(tokens)) tokens.resize(static_cast<size_t>(options.tokens));
  return tokens;
}

TextWindows windows_of(const EvalOptions& options, const Tokenizer& tokenizer, const ModelSpec& config) {
  return {text_of(options, tokenizer), {window_of(options, config), options.stride, opening_of(tokenizer)}};
}

std::optional<NeedlePlan> needles_of(const EvalOptions& options, const TextWindows& windows) {
  if (options.needles < 0 || options.needles > 1000) {
    fail_usage(fmt::format("{} needles at each depth make no sense", options.needles), "--needles", "use 0 to 1000");
  }
  if (options.needle_candidates < 2 || options.needle_candidates > 1000) {
    fail_usage(fmt::format("{} candidates are no choice", options.needle_candidates), "--needle-candidates",
               "use 2 to 1000");
  }
  if (options.needles == 0) return std::nullopt;
  NeedlePlan plan;
  plan.context = windows.cut().context;
  plan.cases = options.needles;
  plan.candidates = options.needle_candidates;
  plan.opening = windows.cut().opening;
  return plan;
}

// Wrong options are told of before anything is loaded or read.
void check_options(const EvalOptions& options, const ModelSpec& config) {
  for (const std::string& policy : options.policies) kv_groups(config, with_policy({}, policy).kv);
  for (const std::int64_t depth : options.speed) {
    if (depth < 0 || depth > config.context - kSpeedTokens - 3) {
      fail_usage(fmt::format("a depth of {} does not fit the model's context of {}", depth, config.context),
                 "--speed", fmt::format("use 0 to {}", config.context - kSpeedTokens - 3));
    }
  }
}

// Policies in turn, several times over, so that a machine that slows down slows down for all of them.
void measure_speed(const EvalOptions& options, Backend& backend, Model& model, const Evaluation& evaluation,
                   EvalReport& report) {
  constexpr int kRounds = 3;
  std::vector<EngineConfig> configs{with_policy(evaluation.configs().front(), "f16")};
  configs.insert(configs.end(), evaluation.configs().begin(), evaluation.configs().end());
  Progress progress("speed");
  std::uint64_t done = 0;
  for (const std::int64_t depth : options.speed) {
    const BenchTest test{BenchTest::Kind::kDecode, kSpeedTokens, depth};
    std::vector<std::vector<double>> seconds(configs.size());
    for (int round = 0; round < kRounds; ++round) {
      for (size_t i = 0; i < configs.size(); ++i) {
        seconds[i].push_back(Bench(backend, model, configs[i], nullptr).run(test, 1, {}).median_seconds);
        progress.show(++done, options.speed.size() * kRounds * configs.size());
      }
    }
    const double f16 = spread_of(seconds.front()).median;
    for (size_t i = 0; i < report.policies.size(); ++i) {
      const double median = spread_of(seconds[i + 1]).median;
      report.policies[i].speed.push_back({depth, static_cast<double>(kSpeedTokens) / median, f16 / median});
    }
  }
}

// One endless sequence a policy, one after the other.
void stream(const EvalOptions& options, const std::filesystem::path& folder, const Tokenizer& tokenizer) {
  const std::vector<TokenId> text = text_of(options, tokenizer);
  const auto backend = backend_of(options.model);
  const auto model = load_with_bar(options.model, folder, *backend);
  StreamReport report{folder.filename().string(), backend->description(), *options.stream, options.reread, {}};
  StreamPlan plan;
  plan.tokens = *options.stream;
  plan.opening = opening_of(tokenizer);
  plan.last = options.reread;
  const std::vector<TokenId> tokens = stream_tokens(text, plan);
  const std::vector<std::string> policies =
      options.policies.empty() ? std::vector<std::string>{kStreamPolicy} : options.policies;
  for (const std::string& policy : policies) {
    const EngineConfig config = with_policy({}, policy);
    const std::string name = to_text(config.kv);
    Progress progress(name);
    const auto show_of = [&progress](std::int64_t all) {
      return [&progress, all](std::int64_t done) {
        progress.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(all));
      };
    };
    report.policies.push_back({name, read_stream(*backend, *model, config, tokens, plan, show_of(plan.tokens)), 0});
    if (plan.last == 0) continue;
    report.policies.back().reread = reread_last(*backend, *model, config, tokens, plan, show_of(plan.last));
  }
  if (!options.svg.empty()) write_svg(options.svg, stream_charts(report));
  if (options.json) {
    fmt::print("{}\n", stream_json(report));
  } else {
    print_stream(report);
  }
}

void evaluate(const EvalOptions& options) {
  const std::filesystem::path folder = find_model(options.model.model);
  const ModelSpec config = load_config(folder);
  check_options(options, config);
  const Tokenizer tokenizer = load_tokenizer(folder);
  if (options.stream) return stream(options, folder, tokenizer);
  TextWindows windows = windows_of(options, tokenizer, config);
  const std::optional<NeedlePlan> needles = needles_of(options, windows);
  if (needles) make_needle_case(tokenizer, *needles, 0);  // says what is wrong with the settings
  const auto backend = backend_of(options.model);
  const auto model = load_with_bar(options.model, folder, *backend);
  EvalPlan plan{std::move(windows), with_reference(options.policies.empty() ? every_format() : options.policies),
                needles, std::nullopt};
  if (!options.resume.empty()) plan.resume = options.resume;
  Evaluation evaluation(*backend, *model, tokenizer, std::move(plan), {});
  {
    Progress progress("judging");
    evaluation.run([&progress](std::int64_t done, std::int64_t all, const std::string& what) {
      progress.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(all), what);
    });
  }
  EvalReport report = report_of(evaluation, *model);
  report.model = folder.filename().string();
  report.backend = backend->description();
  report.text = std::filesystem::path(options.text).filename().string();
  if (!options.speed.empty()) measure_speed(options, *backend, *model, evaluation, report);
  if (!options.svg.empty()) write_svg(options.svg, report_charts(report));
  if (options.json) {
    fmt::print("{}\n", report_json(report));
  } else {
    print_table(report);
  }
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command = app.add_subcommand("eval", "What KV policies cost: perplexity, divergence, needles, bytes");
  add_compute_options(*command, options->model);
  command->add_option("--text", options->text, "A text file to read; special tokens in it count as such")->required();
  command
      ->add_option("--kv", options->policies,
                   "A KV policy to judge, or @FILE; may be given again; default: every format")
      ->take_all();
  command->add_option("--ctx", options->context, "Tokens in a window; 0: the model's context, at most 2048")
      ->capture_default_str();
  command->add_option("--stride", options->stride, "Tokens from window to window; 0: windows do not overlap")
      ->capture_default_str();
  command->add_option("--tokens", options->tokens, "Of the text, at most; 0: all")->capture_default_str();
  command->add_option("--needles", options->needles, "Names to find, at each of five depths; 0: none")
      ->capture_default_str();
  command->add_option("--needle-candidates", options->needle_candidates, "Names to choose among")
      ->capture_default_str();
  command->add_option("--speed", options->speed, "Measure decode behind so many cached tokens, like 512,1024")
      ->delimiter(',');
  command->add_option("--svg", options->svg, "Write a plot of quality against bytes to this file");
  command->add_option("--resume", options->resume, "Keep what is done in this file, and go on from it");
  command->add_option("--stream", options->stream,
                      "Instead: read so many tokens as one endless sequence, under policies with a window");
  command->add_option("--reread", options->reread,
                      "With --stream: judge so many last tokens once more, their windows computed from scratch");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] {
    for (std::string& policy : options->policies) policy = policy_argument(policy, "--kv");
    evaluate(*options);
  });
}

}  // namespace kvasir
