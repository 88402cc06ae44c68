// Who can guess: a table, and what is chosen of it.
#pragma once

#include <array>
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
// Those that run passes, of which there is one at most.
inline constexpr std::string_view kModelDrafter = "model";
inline constexpr std::string_view kNextNDrafter = "mtp";
inline constexpr std::string_view kEagleDrafter = "eagle3";
inline constexpr std::array<std::string_view, 3> kPassDrafters{kModelDrafter, kNextNDrafter, kEagleDrafter};

struct SpeculationConfig {
  enum class Verify : std::uint8_t {
    kWhatPays,  // as many tokens as pay, by what was measured
    kAll,       // as many as there are, of the first that has some: for tests
  };

  std::vector<std::string> drafters;  // names of drafter_kinds(), or one of kPassDrafters; none: nobody guesses
  std::uint32_t model = 0;            // of that one: which of the engine's models
  std::vector<TokenId> tokens = {};   // of a head: see DraftHead
  std::int64_t most = 32;             // tokens in a draft's main chain
  int branches = 1;                   // of a draft, that may follow the same token: 1 to kMostBranches
  Verify verify = Verify::kWhatPays;
};

// What a request wants of it.
struct SpeculativeParams {
  std::vector<std::string> drafters;  // none: all that there are
  std::int64_t most = 64;             // tokens in a draft's main chain; 0: nobody guesses
  int branches = kMostBranches;       // that may follow the same token; fewer where the engine has fewer
};

// "ngram,tales-draft": what --draft and LlmOptions::draft say. Names that are in no table are models' or heads': one
// at most, and none beside mtp.
struct DraftChoice {
  enum class OwnHead : std::uint8_t { kNo, kIfThere, kYes };

  std::vector<std::string> drafters;  // kModelDrafter stands for `model`
  std::string model;                  // empty: none
  OwnHead own_head = OwnHead::kNo;    // mtp: whether the model's own guesses
};
// Throws Error.
DraftChoice parse_draft_choice(const std::string& text, const std::string& where);

}  // namespace kvasir
