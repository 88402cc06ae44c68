#include "cli/tune_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "api/gguf_tokenizer.h"
#include "base/error.h"
#include "cli/eval_text.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/tune_rank.h"
#include "cli/tune_report.h"
#include "eval/policy_engine.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

constexpr std::int64_t kTuneWindow = 1024;

struct TuneOptions {
  ModelOptions model;
  std::string text;
  std::string judge_text;
  std::int64_t context = 0;
  std::int64_t tokens = 8184;
  TuneSettings settings;
  std::vector<std::string> formats;
  std::string heads = "int4";
  std::string out;
  std::string svg;
  std::string resume;
  bool json = false;
  bool rank = false;
};

// All that a way of tuning works with: a model, a text to tune on, and one to judge the result by.
struct TuneWorld {
  std::filesystem::path folder;
  Tokenizer tokenizer;
  TextWindows tuning;
  TextWindows judging;
  std::string judged_text;
  std::unique_ptr<QuantizeOneHeadBackend> backend;
  std::unique_ptr<Model> model;
};

void check_tune_options(TuneOptions& options, const ModelSpec& config) {
  if (options.context == 0) options.context = std::min(config.context, kTuneWindow);
  if (options.context < 0 || options.context > config.context) {
    fail_usage(fmt::format("windows of {} tokens, and the model was trained for {}", options.context, config.context),
               "--ctx", fmt::format("use {} or less", config.context));
  }
  if (options.tokens < 0) fail_usage("a count of tokens is not negative", "--tokens", "0 takes all there are");
  if (!options.formats.empty()) options.settings.formats.clear();
  for (const std::string& name : options.formats) options.settings.formats.push_back(parse_kv_format(name));
  for (const std::int64_t recent : options.settings.recents) {
    if (recent < 0 || recent >= options.context) {
      fail_usage(fmt::format("{} recent tokens of {} make no sense", recent, options.context), "--recent",
                 "use 0 for none, or a few, like 16,64");
    }
  }
  if (options.heads != "none") parse_kv_format(options.heads);
}

// Without a text of its own to judge by, the first half is for tuning and the second for judging.
std::pair<std::vector<TokenId>, std::vector<TokenId>> texts_of(const TuneOptions& options,
                                                               const Tokenizer& tokenizer) {
  std::vector<TokenId> tuning = tokens_of_file(options.text, tokenizer);
  std::vector<TokenId> judging;
  if (options.judge_text.empty()) {
    const auto middle = tuning.begin() + std::ssize(tuning) / 2;
    judging.assign(middle, tuning.end());
    tuning.erase(middle, tuning.end());
  } else {
    judging = tokens_of_file(options.judge_text, tokenizer);
  }
  const auto most = static_cast<size_t>(options.tokens);
  for (auto* text : {&tuning, &judging}) {
    if (most > 0 && text->size() > most) text->resize(most);
  }
  return {std::move(tuning), std::move(judging)};
}

TuneWorld open_world(TuneOptions& options) {
  const std::filesystem::path folder = find_model(options.model.model);
  check_tune_options(options, load_config(folder));
  Tokenizer tokenizer = load_tokenizer(folder);
  auto [tuning, judging] = texts_of(options, tokenizer);
  const TextWindows::Cut cut{options.context, 0, opening_of(tokenizer)};
  TextWindows tuning_windows(std::move(tuning), cut);
  TextWindows judging_windows(std::move(judging), cut);
  const std::string words = options.judge_text.empty()
                                ? "the text's second half"
                                : std::filesystem::path(options.judge_text).filename().string();
  auto backend = std::make_unique<QuantizeOneHeadBackend>(backend_of(options.model));
  auto model = load_with_bar(options.model, folder, *backend);
  return {folder, std::move(tokenizer), std::move(tuning_windows), std::move(judging_windows),
          words,  std::move(backend),   std::move(model)};
}

OnMeasured shown_by(Progress& progress) {
  return [&progress](std::int64_t done, std::int64_t all, const std::string& what) {
    progress.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(all), what);
  };
}

// The chosen policy beside f16 and the uniform formats, the chosen one last.
EvalReport judged_by(const TuneOptions& options, TuneWorld& world, const TuneResult& result) {
  std::vector<std::string> policies{"f16"};
  for (const TunedMix& one : result.uniform) {
    if (one.policy != result.best.policy) policies.push_back(one.policy);
  }
  policies.push_back(result.best.policy);
  EvalPlan plan{world.judging, with_reference(policies), std::nullopt, std::nullopt};
  Evaluation evaluation(*world.backend, *world.model, world.tokenizer, std::move(plan), {});
  Progress progress("judging");
  evaluation.run(shown_by(progress));
  EvalReport report = report_of(evaluation, *world.model);
  report.model = world.folder.filename().string();
  report.backend = world.backend->description();
  report.text = std::filesystem::path(options.text).filename().string();
  return report;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail_system("it cannot be written", path, "check that the folder exists and is yours to write to");
}

// Formats by layer.
TuneReport tune_formats(const TuneOptions& options, TuneWorld& world) {
  std::optional<std::filesystem::path> resume;
  if (!options.resume.empty()) resume = options.resume;
  TuneReport report;
  report.settings = options.settings;
  PolicyEvaluator evaluator(*world.backend, *world.model, world.tokenizer, world.tuning, resume);
  {
    Progress progress("tuning");
    report.result = tune_layers(evaluator, *world.model, options.settings, shown_by(progress));
    if (options.heads != "none") {
      report.head_format = parse_kv_format(options.heads);
      report.heads = probe_heads(*world.backend, *world.model, world.tuning, report.head_format, shown_by(progress));
    }
  }
  report.tuned_tokens = world.tuning.judged();
  report.reference_perplexity = evaluator.of(kReferencePolicy).perplexity();
  report.judged = judged_by(options, world, report.result);
  report.judged_text = world.judged_text;
  return report;
}

void tune(TuneOptions& options) {
  TuneWorld world = open_world(options);
  const TuneReport report = tune_formats(options, world);
  if (!options.out.empty()) write_text(options.out, policy_file_text(report));
  if (!options.svg.empty()) write_svg(options.svg, tune_charts(report));
  if (options.json) {
    fmt::print("{}\n", tune_json(report));
  } else {
    print_tune_report(report);
  }
}

}  // namespace

void add_tune_command(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command = app.add_subcommand("tune",
                                         "Which formats each layer's K and V deserve, measured; or, with --rank, in "
                                         "which directions their rows say most");
  add_compute_options(*command, options->model);
  command->add_option("--text", options->text, "A text file to tune on; special tokens in it count as such")
      ->required();
  command->add_option("--judge-text", options->judge_text,
                      "Another to judge the result by; default: the second half of --text, which is not tuned on");
  command->add_option("--bits", options->settings.bits, "For each cached number, scales apart, at most")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 32.0));
  command->add_option("--formats", options->formats, "To choose among; default: int8,int4,int2")->delimiter(',');
  command
      ->add_option("--recent", options->settings.recents,
                   "Numbers of recent tokens to try keeping in int8; they count as bits; 0: none")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--ctx", options->context, "Tokens in a window; 0: the model's context, at most 1024")
      ->capture_default_str();
  command->add_option("--tokens", options->tokens, "Of each text, at most; 0: all")->capture_default_str();
  command->add_option("--heads", options->heads, "Also measure each head in this format; none: do not")
      ->capture_default_str();
  command->add_option("-o,--out", options->out, "Write the chosen policy to this file, for --kv @FILE");
  command->add_option("--svg", options->svg, "Write a plot of the front and of the layers to this file");
  command->add_option("--resume", options->resume, "Keep what is measured in this file, and go on from it");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--rank", options->rank,
                    "Instead: directions in which rows say most, for policies with rank= or channels=; -o: the file, "
                    "default kv-basis.safetensors in the model's folder");
  command->callback([options] {
    if (!options->rank) return tune(*options);
    tune_rank({options->model, options->text, options->context, options->tokens, options->out});
  });
}

}  // namespace kvasir
