// Drafters that look a text up, and cost nothing but that.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/hash.h"
#include "engine/draft/drafter.h"
#include "engine/draft/token_index.h"

namespace kvasir {

// What followed the newest tokens where they stood before in the same text, prompt and answer: edits, quotes, code.
class NgramDrafter final : public Drafter {
 public:
  static constexpr std::uint32_t kMostTokens = 1U << 17;  // of a sequence, the newest: 2.6 MB

  std::string_view name() const override { return "ngram"; }
  void propose(std::span<const DraftAsk> asks) override;
};

// The same in the prompts and answers that the tenant had lately: agents ask the same again and again. A tenant's
// divisions of its cache (cache_salt, prompt_cache_key) have texts of their own, and no tenant sees another's.
class SuffixDrafter final : public Drafter {
 public:
  static constexpr std::uint32_t kMostTokens = 1U << 16;  // of a division, the newest: 1.3 MB
  static constexpr std::size_t kMostTexts = 4;            // divisions of a tenant; the one unused for longest goes

  std::string_view name() const override { return "suffix"; }
  void propose(std::span<const DraftAsk> asks) override;
  void finished(const Sequence& sequence) override;

  std::size_t bytes_of(std::uint32_t tenant) const;

 private:
  struct Division {
    Key256 secret;
    std::uint32_t model = 0;
    std::uint64_t used = 0;
    std::unique_ptr<TokenIndex> texts;
  };

  Division* find(const Sequence& sequence);

  std::map<std::uint32_t, std::vector<Division>> of_tenant_;
  std::uint64_t clock_ = 0;
};

// What the request says that its answer will be like: OpenAI's `prediction`.
class PredictionDrafter final : public Drafter {
 public:
  std::string_view name() const override { return "prediction"; }
  void propose(std::span<const DraftAsk> asks) override;
};

}  // namespace kvasir
