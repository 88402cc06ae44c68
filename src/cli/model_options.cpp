#include "cli/model_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/option_group.h"
#include "cli/policy_file.h"
#include "engine/draft/drafters.h"

namespace kvasir {
namespace {

constexpr const char* kShippedModel = "tales";

// Where models lie beside the program: in a checkout (build/kvasir) and where it is installed (bin/kvasir).
std::vector<std::filesystem::path> shipped_folders() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path up = program.parent_path().parent_path();
  return {up / "models", up / "share" / "kvasir" / "models"};
}

bool is_model(const std::filesystem::path& folder) { return std::filesystem::exists(folder / "config.json"); }

std::string shipped_names() {
  std::string names;
  for (const auto& folder : shipped_folders()) {
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (is_model(entry.path()))
        names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.path().filename().string());
    }
  }
  return names;
}

}  // namespace

void add_compute_options(CLI::App& command, ModelOptions& options) {
  const OptionGroup model(command, "Model");
  model.option("-m,--model", options.model,
               "A Hugging Face folder, a .gguf file, or a shipped model: " + shipped_names());
  model.option_with_default("--device", options.device,
                            "cpu, cuda:0 and on; auto: the first GPU, else cpu; ref: plain loops, the oracle");
  model.option_with_default("-t,--threads", options.threads, "Threads; 0: as many as cores")
      ->check(CLI::NonNegativeNumber);
  model.option_with_default("--isa", options.isa,
                            "auto, scalar, avx2, avx512, avx512dot; the answer is the same with each");

  model.option_with_default(
      "--activations", options.activations,
      "auto: rows are rounded to bf16 beside bf16 weights, to 8 bits beside quantized ones; f32: never, "
      "slower and "
      "closest to float32");
  model.option_with_default(
      "--weights", options.weights,
      "as-stored; int8, fp8: made so as they are loaded, on a GPU: half the memory of bf16, faster answers, "
      "slower prompts");
  model.option("--pooling", options.pooling,
               "How a text's rows become its vector: mean, cls, last; default: as the model's files say");
  model.option("--kv-basis", options.kv_basis,
               "What kvasir tune --rank wrote, for policies with rank= or channels=; default: kv-basis.safetensors "
               "in the model's folder, if it is there");
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  add_compute_options(command, options);
  OptionGroup(command, "Model")
      .option_with_default("--generation-config", options.generation_config,
                           "auto: where nothing says how answers are drawn, as the model's generation_config.json "
                           "asks; off: as if there were none");
  const OptionGroup cache(command, "Cache");
  cache
      .option_with_default("-c,--ctx-size", options.context,
                           "Longest sequence in tokens; 0: as the model was trained")
      ->check(CLI::NonNegativeNumber);
  cache.option_with_default(
      "--kv,--kv-dtype", options.kv,
      "KV policy: formats and what is kept, like \"int8\" or \"k=int8, v=int4, window=1024, sinks=4\", or @FILE; "
      "formats: f32, f16, bf16, fp8_e4m3, fp8_e5m2, int8, int4, int2, top50, top25");
  cache.option("--kv-memory", options.kv_memory,
               "Memory for the cache, like 512MiB; default: four longest sequences, if there is room");
  cache.option_with_default("--block-size", options.block_size, "Tokens in a block");
  cache.option("--max-batch-tokens", options.max_batch_tokens, "Tokens in one step; default: 512, and 2048 on a GPU");
  cache.option("--swap-memory", options.swap_memory,
               "Host memory for requests that must pause; 0: they are computed again; default: as --kv-memory");
  cache.option_with_default("--eviction", options.eviction, "Which cached block goes first: lru, fifo, cost");
  cache
      .option_with_default(
          "--state-budget", options.state_budget,
          "Of models with recurrent layers: states that a request leaves behind to be found by others, "
          "beside those at its breakpoints; 0: none, nor of its answer")
      ->check(CLI::Range(0, 1024));
  cache.flag("--no-cache", options.no_cache, "Recompute the whole sequence for every token: the baseline");
}

void add_draft_options(CLI::App& command, ModelOptions& options) {
  const OptionGroup group(command, "Speculation");
  group.option_with_default(
      "--draft", options.draft,
      "Who guesses tokens, to be verified several in a step; the answer stays the same. auto: ngram (the request's "
      "own "
      "text), suffix (the tenant's recent texts) and mtp (the model's own head, where its files have one), as they "
      "pay; off; or a list of these and a draft model or an EAGLE-3 head");
  group.option_with_default("--draft-tokens", options.draft_tokens, "Tokens in a draft, at most: 1 to 64");
  group.option_with_default("--draft-tree", options.draft_tree,
                            "Guesses of the same place in a draft, at most: 1 (a chain) to 4 (a tree)");
}

std::filesystem::path find_model(const std::string& name, const char* option) {
  const std::string wanted = name.empty() ? kShippedModel : name;
  if (!name.empty() && std::filesystem::exists(name)) return name;
  for (const auto& folder : shipped_folders()) {
    if (wanted.find('/') == std::string::npos && is_model(folder / wanted)) return folder / wanted;
  }
  fail_usage(fmt::format("there is no model '{}'", wanted), option,
             "give a folder, a .gguf file, or one of: " + shipped_names());
}

LlmOptions llm_options(const ModelOptions& options) {
  LlmOptions out = options_of_any_model(options);
  out.model = find_model(options.model).string();
  return out;
}

// A model in it is looked for as --model's is.
std::string draft_argument(const std::string& text) {
  const std::string model = parse_draft_choice(text, "--draft").model;
  if (model.empty()) return text;
  const std::string whole = "," + text + ",";
  const size_t at = whole.find("," + model + ",");
  return text.substr(0, at) + find_model(model, "--draft").string() + text.substr(at + model.size());
}

LlmOptions options_of_any_model(const ModelOptions& options) {
  LlmOptions out;
  out.device = options.device;
  out.isa = options.isa;
  out.activations = options.activations;
  out.weights = options.weights;
  out.threads = options.threads;
  out.context = options.context;
  out.kv = policy_argument(options.kv, "--kv");
  for (const std::string& policy : options.kv_allow) {
    out.kv_allow.push_back(policy_argument(policy, "--kv-allow"));
  }
  out.kv_room_for = options.kv_room_for;
  out.kv_basis = options.kv_basis;
  out.pooling = options.pooling;
  out.generation_config = options.generation_config;
  if (!options.kv_memory.empty()) out.kv_bytes = parse_bytes(options.kv_memory, "--kv-memory");
  out.block_tokens = options.block_size;
  out.max_batch_tokens = options.max_batch_tokens;
  out.eviction = options.eviction;
  out.state_budget = options.state_budget;
  if (!options.swap_memory.empty()) {
    out.swap_bytes = static_cast<std::int64_t>(parse_bytes(options.swap_memory, "--swap-memory", 0));
  }
  out.recompute = options.no_cache;
  out.draft = draft_argument(options.draft);
  out.draft_tokens = options.draft_tokens;
  out.draft_tree = options.draft_tree;
  return out;
}

}  // namespace kvasir
