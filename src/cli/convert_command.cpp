#include "cli/convert_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "api/gguf_tokenizer.h"
#include "base/bytes.h"
#include "base/error.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "model/convert.h"

namespace kvasir {
namespace {

struct ConvertCommand {
  std::string model;
  std::string out;
  std::string weights = "f16";
  int threads = 0;
  bool force = false;
};

DType parse_type(const std::string& name) {
  const auto type = weight_type_named(name);
  if (!type) {
    fail_usage(fmt::format("'{}' is not a type of weights", name), "--weights",
               "use f32, f16, bf16, q8_0, q4_0, q4_k or q6_k");
  }
  return *type;
}

void convert(const ConvertCommand& command) {
  ConvertOptions options;
  options.weights = parse_type(command.weights);
  if (command.force) options.write.existing = GgufWriteOptions::Existing::kReplace;
  const auto cores = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
  options.write.threads = command.threads > 0 ? command.threads : cores;
  Progress progress("writing");
  options.write.progress = [&progress](std::uint64_t done, std::uint64_t all) {
    progress.show(done, all, fmt::format("{} of {}", format_bytes(done), format_bytes(all)));
  };
  const std::filesystem::path model = find_model(command.model);
  const std::vector<std::string> notes =
      convert_to_gguf(model, command.out, gguf_tokenizer_keys(model, load_config(model)), options);
  for (const std::string& note : notes) fmt::print(stderr, "note: {}\n", note);
  fmt::print("{}: {}\n", command.out, format_bytes(std::filesystem::file_size(command.out)));
}

}  // namespace

void add_convert_command(CLI::App& app) {
  auto command = std::make_shared<ConvertCommand>();
  CLI::App* sub = app.add_subcommand("convert", "Write a model as one GGUF file, its weights in another type");
  sub->add_option("-m,--model", command->model, "A Hugging Face folder, a .gguf file, or a shipped model")
      ->required();
  sub->add_option("-o,--out", command->out, "The file to write")->required();
  sub->add_option("--weights", command->weights, "f32, f16, bf16, q8_0, q4_0, q4_k or q6_k")->capture_default_str();
  sub->add_option("-t,--threads", command->threads, "Threads; 0: as many as cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  sub->add_flag("--force", command->force, "Replace a file that is there");
  sub->callback([command] { convert(*command); });
}

}  // namespace kvasir
