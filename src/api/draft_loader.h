// What --draft names, loaded: a draft model, or a head that is the model's own (MTP) or in a folder (EAGLE-3).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "engine/draft/drafters.h"
#include "engine/engine_config.h"
#include "kvasir/kvasir.h"
#include "model/draft_head.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace kvasir {

// None of what runs passes: all members are empty.
struct LoadedDraft {
  std::string_view name = {};  // one of kPassDrafters
  DraftHead model;

  // Says in the configuration who guesses besides texts. REQUIRES: further_models() are given to the engine, too.
  void add_to(EngineConfig& config) const;
  std::vector<EngineModel> further_models() const;
};

// `target` was loaded with these options. Throws Error for what cannot guess for it.
LoadedDraft load_draft(const LlmOptions& options, const Model& target, const Tokenizer& tokenizer, Backend& backend);

// The same where nobody has the target's tokenizer: a draft model's vocabulary is not compared.
LoadedDraft load_draft(const LlmOptions& options, const Model& target, Backend& backend);

}  // namespace kvasir
