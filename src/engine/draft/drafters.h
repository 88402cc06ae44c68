// Who can guess: a table, and what is chosen of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/draft/drafter.h"

namespace kvasir {

// A drafter that needs no model.
struct DrafterKind {
  std::string_view name;
  std::unique_ptr<Drafter> (*make)();
};

std::span<const DrafterKind> drafter_kinds();
inline constexpr std::string_view kModelDrafter = "model";

struct SpeculationConfig {
  enum class Verify : std::uint8_t {
    kWhatPays,  // as many tokens as pay, by what was measured
    kAll,       // as many as there are, of the first that has some: for tests
  };

  std::vector<std::string> drafters;  // names of drafter_kinds(), or kModelDrafter; none: nobody guesses
  std::uint32_t model = 0;            // kModelDrafter: which of the engine's models
  std::int64_t most = 32;             // tokens in a draft
  Verify verify = Verify::kWhatPays;
};

// What a request wants of it.
struct SpeculativeParams {
  std::vector<std::string> drafters;  // none: all that there are
  std::int64_t most = 64;             // tokens in a draft; 0: nobody guesses
};

// "ngram,tales-draft": what --draft and LlmOptions::draft say. Names that are in no table are models: one at most.
struct DraftChoice {
  std::vector<std::string> drafters;
  std::string model;  // empty: none
};
// Throws Error.
DraftChoice parse_draft_choice(const std::string& text, const std::string& where);

}  // namespace kvasir
