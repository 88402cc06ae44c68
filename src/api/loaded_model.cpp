#include "api/loaded_model.h"

#include <fmt/format.h>

#include "api/gguf_tokenizer.h"
#include "api/public_text.h"
#include "backend/make_backend.h"
#include "base/error.h"
#include "layout/kv_policy.h"
#include "model/gguf/gguf_model.h"
#include "sample/generation_config.h"

namespace kvasir {

EngineConfig engine_config(const LlmOptions& options, std::vector<std::vector<TokenId>> public_texts) {
  EngineConfig config;
  config.public_texts = std::move(public_texts);
  config.kv = parse_kv_policy(options.kv, "--kv");
  for (const std::string& policy : options.kv_allow) {
    if (policy == "any") {
      config.others = EngineConfig::OtherPolicies::kAny;
    } else {
      config.kv_also.push_back(parse_kv_policy(policy, "--kv-allow"));
    }
  }
  for (const std::string& policy : options.kv_room_for) {
    config.internal_policies.push_back(parse_kv_policy(policy, "kv_room_for"));
  }
  config.block_tokens = options.block_tokens;
  config.context = options.context;
  config.kv_bytes = options.kv_bytes;
  config.eviction = options.eviction;
  config.scheduler.state_budget = options.state_budget;
  if (options.swap_bytes >= 0) config.swap_bytes = static_cast<std::uint64_t>(options.swap_bytes);
  config.reuse = options.reuse ? CacheConfig::Reuse::kOn : CacheConfig::Reuse::kOff;
  config.mode = options.recompute ? EngineConfig::Mode::kRecompute : EngineConfig::Mode::kCached;
  config.speculation.drafters = parse_draft_choice(options.draft, "--draft").drafters;
  if (options.draft_tokens < 1 || options.draft_tokens > 64) {
    fail_usage(fmt::format("drafts of {} tokens make no sense", options.draft_tokens), "--draft-tokens",
               "use 1 to 64, or --draft off");
  }
  config.speculation.most = options.draft_tokens;
  if (options.draft_tree < 1 || options.draft_tree > kMostBranches) {
    fail_usage(fmt::format("{} guesses of the same place make no sense", options.draft_tree), "--draft-tree",
               fmt::format("use 1 to {}", kMostBranches));
  }
  config.speculation.branches = options.draft_tree;
  config.scheduler.max_batch_tokens = batch_tokens(options.max_batch_tokens, options.device);
  return config;
}

namespace {

// What is wrong with the model or an option is said before gigabytes are read.
std::filesystem::path checked_model(const LlmOptions& options) {
  const ModelSpec config = load_config(options.model);
  check_runnable(config, options.model);
  const EngineConfig engine = engine_config(options, {});  // throws for policies that are none
  kv_groups(config, engine.kv);                            // or are not this model's
  if (!options.pooling.empty()) pooling_named(options.pooling, "--pooling");
  for (const KvPolicy& also : engine.kv_also) kv_groups(config, also);
  if (options.generation_config != "auto" && options.generation_config != "off") {
    fail_usage(fmt::format("there is no '{}' here", options.generation_config), "--generation-config",
               "use auto or off");
  }
  if (options.state_budget < 0 || options.state_budget > 1024) {
    fail_usage(fmt::format("a budget of {} states makes no sense", options.state_budget), "--state-budget",
               "use 0 to 1024");
  }
  if (options.max_batch_tokens < 0 || options.max_batch_tokens > 65536) {
    fail_usage(fmt::format("a batch of {} tokens makes no sense", options.max_batch_tokens), "--max-batch-tokens",
               "use 1 to 65536, or 0 for what suits the device");
  }
  return options.model;
}

constexpr const char* kMessagesAsText =
    "{{ bos_token }}{% for message in messages %}{{ message['content'] }}{% if not loop.last %}{{ '\n' }}{% endif %}"
    "{% endfor %}{{ eos_token }}";

std::optional<ChatTemplate> chat_of(const Tokenizer& tokenizer) {
  if (!tokenizer.chat_template()) return std::nullopt;
  return ChatTemplate(*tokenizer.chat_template(), tokenizer.chat_template_where());
}

// A GGUF file has no generation_config.json, and one that happens to lie beside it is another model's.
SamplingOverrides sampling_of_model(const LlmOptions& options) {
  const std::filesystem::path path = options.model;
  if (options.generation_config == "off" || find_gguf(path)) return {};
  std::error_code ignored;
  return load_generation_config(std::filesystem::is_directory(path, ignored) ? path : path.parent_path());
}

std::vector<std::vector<TokenId>> read_all(std::span<const std::filesystem::path> files, const Tokenizer& tokenizer,
                                           const std::optional<ChatTemplate>& chat) {
  std::vector<std::vector<TokenId>> texts;
  for (const auto& file : files) texts.push_back(read_public_text(file, tokenizer, chat ? &*chat : nullptr));
  return texts;
}

VectorHead vector_head_of(const LlmOptions& options, ModelSpec spec) {
  if (!options.pooling.empty()) spec.vectors.pooling = pooling_named(options.pooling, "--pooling");
  return {options.model, spec};
}

EngineConfig config_with(const LlmOptions& options, std::vector<std::vector<TokenId>> public_texts,
                         const LoadedDraft& draft) {
  EngineConfig config = engine_config(options, std::move(public_texts));
  draft.add_to(config);
  return config;
}

}  // namespace

LoadedModel::LoadedModel(const LlmOptions& options, std::span<const std::filesystem::path> public_files)
    : tokenizer(load_tokenizer(checked_model(options))),
      chat(chat_of(tokenizer)),
      sampling(sampling_of_model(options)),
      public_texts(read_all(public_files, tokenizer, chat)),
      backend(make_backend(
          {options.device, options.threads, options.isa, parse_activation_precision(options.activations)})),
      model(load_model(options.model, *backend,
                       {batch_tokens(options.max_batch_tokens, options.device), options.on_load,
                        find_kv_basis(options.kv_basis, options.model), parse_weight_quantization(options.weights),
                        options.context})),
      draft(load_draft(options, *model, tokenizer, *backend)),
      engine(*backend, *model, config_with(options, public_texts, draft), draft.further_models()),
      embedder(*backend, *model, options.context),
      vectors(vector_head_of(options, model->config())),
      reranker(make_reranker(options.model, model->config(), tokenizer, chat)) {
  if (tokenizer.vocab_size() > model->config().vocab) {
    fail_input(
        fmt::format("the tokenizer has {} tokens, and the model {}", tokenizer.vocab_size(), model->config().vocab),
        options.model, "check that the tokenizer and the model belong together");
  }
  // A model that answers to a source was trained on texts, and has no template: the messages are the text.
  if (!chat && model->config().reads_source()) chat.emplace(kMessagesAsText, "a text of all messages");
  engine.warm_public_texts();
  longest = engine.longest_of(kSystemTenant);
}

}  // namespace kvasir
