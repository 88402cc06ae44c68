// A drafter that knows the answers, and is wrong where it is told to be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "engine/draft/drafter.h"
#include "engine/sequence.h"

namespace kvasir::testing {

class KnownDrafter final : public Drafter {
 public:
  // `wrong`: whether the token at this place of an answer is to be guessed wrong. `length`: tokens of a draft there.
  using Wrong = std::function<bool(std::int64_t output)>;
  using Length = std::function<std::int64_t(std::int64_t output)>;
  KnownDrafter(Wrong wrong, Length length) : wrong_(std::move(wrong)), length_(std::move(length)) {}

  void know(std::vector<TokenId> prompt, std::vector<TokenId> answer) {
    answers_[std::move(prompt)] = std::move(answer);
  }

  std::string_view name() const override { return "known"; }

  void propose(std::span<const DraftAsk> asks) override {
    for (const DraftAsk& ask : asks) {
      const auto known = answers_.find(ask.sequence.request.prompt);
      if (known == answers_.end()) continue;
      const std::int64_t output = ask.sequence.num_output_tokens();
      const std::int64_t end = std::min(output + std::min(ask.most, length_(output)), std::ssize(known->second));
      for (std::int64_t i = output; i < end; ++i) {
        const TokenId right = known->second[static_cast<size_t>(i)];
        ask.draft.add(wrong_(i) ? (right + 1) % 101 : right, 0.5F);
      }
      drafted_ += std::ssize(ask.draft.tokens);
      drafts_ += ask.draft.empty() ? 0 : 1;
    }
  }

  std::int64_t drafted() const { return drafted_; }  // tokens
  std::int64_t drafts() const { return drafts_; }

 private:
  Wrong wrong_;
  Length length_;
  std::map<std::vector<TokenId>, std::vector<TokenId>> answers_;
  std::int64_t drafted_ = 0;
  std::int64_t drafts_ = 0;
};

}  // namespace kvasir::testing
