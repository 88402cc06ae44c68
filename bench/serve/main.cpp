// serve_bench: `kvasir serve` under load. One command an experiment; see bench/README.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>

#include "serve/experiments.h"
#include "serve/server_process.h"
#include "serve/synthetic_model.h"

namespace kvasir::bench {
namespace {

struct Options {
  std::string model;
  std::string shape;
  std::vector<std::string> server_arguments;
  std::string peer;
  bool json = false;
  StreamsPlan streams;
  PrefixPlan prefix;
  ConcurrencyPlan concurrency;
  BurstPlan burst;
  std::function<Measured(const ServerSetup&)> measure;
};

std::filesystem::path model_of(const Options& options) {
  if (!options.shape.empty()) return synthetic_model(options.shape);
  if (!options.model.empty()) return options.model;
  // build/serve_bench and models/ lie in the same checkout.
  return std::filesystem::path(kvasir_program()).parent_path().parent_path() / "models" / "tales";
}

CLI::App* add(CLI::App& app, Options& options, const char* name, const char* help) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("-m,--model", options.model, "A folder or a GGUF file; default: the shipped model");
  command->add_option("--shape", options.shape, "Instead: a synthetic model of this shape, like llama-3.2-1b");
  command->add_option("--server", options.server_arguments, "An argument for the server, like --server=--threads=1")
      ->allow_extra_args(false);
  command->add_option("--peer", options.peer, "Instead of kvasir: this llama-server, on the same load");
  command->add_flag("--json", options.json, "Machine-readable output");
  return command;
}

void add_experiments(CLI::App& app, Options& options) {
  CLI::App* streams = add(app, options, "streams", "Many streams at once: none lost, memory flat");
  streams->add_option("-n,--streams", options.streams.streams)->capture_default_str();
  streams->add_option("--rounds", options.streams.rounds)->capture_default_str();
  streams->add_option("--prompt-tokens", options.streams.prompt_tokens)->capture_default_str();
  streams->add_option("--answer-tokens", options.streams.answer_tokens)->capture_default_str();
  streams->callback([&] { options.measure = [&](const auto& s) { return measure_streams(s, options.streams); }; });

  CLI::App* prefix = add(app, options, "prefix", "The first token after a shared prefix, warm and cold");
  prefix->add_option("--prefix-tokens", options.prefix.prefix_tokens)->capture_default_str();
  prefix->add_option("--own-tokens", options.prefix.own_tokens)->capture_default_str();
  prefix->add_option("-r,--repeats", options.prefix.repeats)->capture_default_str();
  prefix->callback([&] { options.measure = [&](const auto& s) { return measure_prefix(s, options.prefix); }; });

  CLI::App* concurrency = add(app, options, "concurrency", "Requests one by one, and all at once");
  concurrency->add_option("-n,--requests", options.concurrency.requests)->capture_default_str();
  concurrency->add_option("--prompt-tokens", options.concurrency.prompt_tokens)->capture_default_str();
  concurrency->add_option("--answer-tokens", options.concurrency.answer_tokens)->capture_default_str();
  concurrency->add_option("-r,--repeats", options.concurrency.repeats)->capture_default_str();
  concurrency->callback(
      [&] { options.measure = [&](const auto& s) { return measure_concurrency(s, options.concurrency); }; });

  CLI::App* burst = add(app, options, "burst", "Many requests at once that share a cached prefix");
  burst->add_option("-n,--requests", options.burst.requests)->capture_default_str();
  burst->add_option("--prefix-tokens", options.burst.prefix_tokens)->capture_default_str();
  burst->add_option("--own-tokens", options.burst.own_tokens)->capture_default_str();
  burst->add_option("--answer-tokens", options.burst.answer_tokens)->capture_default_str();
  burst->add_option("-r,--repeats", options.burst.repeats)->capture_default_str();
  burst->callback([&] { options.measure = [&](const auto& s) { return measure_burst(s, options.burst); }; });
}

int run(const Options& options) {
  raise_file_limit();
  ServerSetup setup{model_of(options), {}, options.peer};
  // Shapes are of models with contexts far longer than any experiment's, and memory follows the context.
  if (!options.shape.empty()) setup.arguments = {"--ctx-size", "4096"};
  setup.arguments.insert(setup.arguments.end(), options.server_arguments.begin(), options.server_arguments.end());
  const Measured measured = options.measure(setup);
  if (options.json) {
    fmt::print("{}\n", measured.report.json().dump(2));
  } else {
    fmt::print("{}", measured.report.table());
  }
  for (size_t i = 0; i < measured.errors.size() && i < 10; ++i) fmt::print(stderr, "lost: {}\n", measured.errors[i]);
  return measured.errors.empty() ? 0 : 1;
}

}  // namespace
}  // namespace kvasir::bench

int main(int argc, char** argv) {
  CLI::App app("kvasir serve under load");
  kvasir::bench::Options options;
  kvasir::bench::add_experiments(app, options);
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  try {
    return kvasir::bench::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "serve_bench: {}\n", error.what());
    return 1;
  }
}
