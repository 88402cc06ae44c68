#include "api/loaded_model.h"

#include <fmt/format.h>

#include "backend/make_backend.h"
#include "base/error.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

EngineConfig engine_config(const LlmOptions& options) {
  EngineConfig config;
  config.k_format = config.v_format = parse_kv_format(options.kv_format);
  config.block_tokens = options.block_tokens;
  config.context = options.context;
  config.kv_bytes = options.kv_bytes;
  config.eviction = options.eviction;
  config.reuse = options.reuse ? CacheConfig::Reuse::kOn : CacheConfig::Reuse::kOff;
  config.mode = options.recompute ? EngineConfig::Mode::kRecompute : EngineConfig::Mode::kCached;
  config.scheduler.max_batch_tokens = options.max_batch_tokens;
  return config;
}

// What is wrong with the folder or an option is said before gigabytes are read.
std::filesystem::path checked_folder(const LlmOptions& options) {
  const ModelConfig config = load_config(options.model);
  check_runnable(config, options.model);
  parse_kv_format(options.kv_format);
  if (options.max_batch_tokens < 1 || options.max_batch_tokens > 65536) {
    fail_usage(fmt::format("a batch of {} tokens makes no sense", options.max_batch_tokens), "--max-batch-tokens",
               "use 1 to 65536");
  }
  return options.model;
}

std::int64_t longest_that_fits(const Engine& engine) {
  std::int64_t fits = 1;
  for (std::int64_t above = engine.context() + 1; above - fits > 1;) {
    const std::int64_t middle = fits + (above - fits) / 2;
    (engine.cache().fits_alone(middle - 1) ? fits : above) = middle;  // the last token is never fed back
  }
  return fits;
}

}  // namespace

LoadedModel::LoadedModel(const LlmOptions& options)
    : tokenizer(Tokenizer::load(checked_folder(options))),
      backend(make_backend({options.device, options.threads, options.isa})),
      model(load_model(options.model, *backend, {options.max_batch_tokens, options.on_load})),
      engine(*backend, *model, engine_config(options)),
      longest(longest_that_fits(engine)) {
  if (tokenizer.vocab_size() > model->config().vocab) {
    fail_input(
        fmt::format("the tokenizer has {} tokens, and the model {}", tokenizer.vocab_size(), model->config().vocab),
        options.model, "check that tokenizer.json and config.json belong together");
  }
  if (tokenizer.chat_template()) chat.emplace(*tokenizer.chat_template(), tokenizer.chat_template_where());
}

}  // namespace kvasir
