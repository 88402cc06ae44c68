#include "api/draft_loader.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/gguf_tokenizer.h"
#include "backend/make_backend.h"
#include "base/error.h"
#include "model/config.h"

namespace kvasir {
namespace {

// Tokens must mean the same to both.
void check_same_vocabulary(const Tokenizer& tokenizer, const std::string& draft) {
  const Tokenizer other = load_tokenizer(draft);
  const auto differ = [&](TokenId id) { return tokenizer.bytes_of(id) != other.bytes_of(id); };
  std::string what;
  if (tokenizer.vocab_size() != other.vocab_size()) {
    what = fmt::format("the draft model has {} tokens, and the model {}", other.vocab_size(), tokenizer.vocab_size());
  }
  for (TokenId id = 0; what.empty() && id < tokenizer.vocab_size(); ++id) {
    if (differ(id)) what = fmt::format("token {} is another in the draft model", id);
  }
  if (!what.empty()) fail_usage(what, draft, "draft with a model of the same vocabulary, or with --draft auto");
}

void check_can_draft(const std::string& draft) {
  const ModelSpec spec = load_config(draft);
  check_runnable(spec, draft);
  check_draft_model(spec, draft);
}

bool has_own_head(const LlmOptions& options, const Model& target) {
  std::error_code ignored;  // a model of random weights has no files
  if (!next_n_head(target.config()) || !std::filesystem::exists(options.model, ignored)) return false;
  return has_next_n_head(options.model);
}

}  // namespace

void LoadedDraft::add_to(EngineConfig& config) const {
  std::erase(config.speculation.drafters, kModelDrafter);  // what the folder holds is known now
  if (model.model == nullptr) return;
  config.speculation.drafters.emplace_back(name);
  config.speculation.model = 1;  // further_models()
  config.speculation.tokens = model.tokens;
}

std::vector<EngineModel> LoadedDraft::further_models() const {
  if (model.model == nullptr) return {};
  return {{model.model.get(), KvPolicy{}}};
}

LoadedDraft load_draft(const LlmOptions& options, const Model& target, Backend& backend) {
  const DraftChoice choice = parse_draft_choice(options.draft, "--draft");
  const LoadOptions how{batch_tokens(options.max_batch_tokens, options.device),
                        {},
                        {},
                        parse_weight_quantization(options.weights),
                        options.context};
  if (choice.model.empty()) {
    if (choice.own_head == DraftChoice::OwnHead::kNo) return {};
    if (choice.own_head == DraftChoice::OwnHead::kIfThere && !has_own_head(options, target)) return {};
    return {kNextNDrafter, load_next_n_head(options.model, target, backend, how)};
  }
  if (is_eagle3_head(choice.model)) return {kEagleDrafter, load_eagle3_head(choice.model, target, backend, how)};
  check_can_draft(choice.model);
  return {kModelDrafter, {load_model(choice.model, backend, how)}};
}

LoadedDraft load_draft(const LlmOptions& options, const Model& target, const Tokenizer& tokenizer, Backend& backend) {
  const std::string model = parse_draft_choice(options.draft, "--draft").model;
  if (!model.empty() && !is_eagle3_head(model)) {
    check_can_draft(model);
    check_same_vocabulary(tokenizer, model);
  }
  return load_draft(options, target, backend);
}

}  // namespace kvasir
