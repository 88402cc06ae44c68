#include "cli/synth_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mmap_file.h"
#include "cli/progress.h"
#include "model/config.h"
#include "model/known_models.h"
#include "model/random_model.h"

namespace kvasir {
namespace {

struct SynthOptions {
  std::string shape;
  std::string config;  // a file
  std::string out;
  std::uint64_t seed = 1;
};

void synth(const SynthOptions& options) {
  if (options.shape.empty() == options.config.empty()) {
    fail_usage("synth takes a shape or a config.json", "synth", "give --shape or --config");
  }
  RandomModelOptions random;
  if (!options.config.empty()) random.config = std::string(MmapFile(options.config).text());
  const ModelSpec config =
      options.config.empty() ? parse_shape(options.shape) : parse_config(random.config, options.config);
  check_runnable(config, options.config.empty() ? options.shape : options.config);
  Progress progress("writing");
  random.seed = options.seed;
  random.progress = [&progress](std::uint64_t done, std::uint64_t all) {
    progress.show(done, all, fmt::format("{} of {}", format_bytes(done), format_bytes(all)));
  };
  write_random_model(config, options.out, random);
  const std::uint64_t parameters = parameter_count(config);
  fmt::print("{}: {} parameters, {}\n", options.out, format_count(parameters),
             format_bytes(row_bytes(config.dtype, static_cast<std::int64_t>(parameters))));
}

}  // namespace

void add_synth_command(CLI::App& app) {
  auto options = std::make_shared<SynthOptions>();
  CLI::App* command =
      app.add_subcommand("synth", "Write a model with random weights, to measure speed without a download");
  command->add_option(
      "--shape", options->shape,
      "A known name (llama-3.2-1b), or layers=16,hidden=2048,ffn=8192,heads=32,kv_heads=8,vocab=128256");
  command->add_option("--config", options->config, "Instead: a config.json of any supported family");
  command->add_option("--out", options->out, "Folder to write")->required();
  command->add_option("--seed", options->seed, "Same shape and seed, same bytes")->capture_default_str();
  command->callback([options] { synth(*options); });
}

}  // namespace kvasir
