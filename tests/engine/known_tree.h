// A drafter that knows the answers, and says them as a tree: what is right stands beside what is wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/draft/drafter.h"
#include "engine/sequence.h"

namespace kvasir::testing {

class KnownTree final : public Drafter {
 public:
  explicit KnownTree(std::int64_t depth) : depth_(depth) {}

  void know(std::vector<TokenId> prompt, std::vector<TokenId> answer) {
    answers_[std::move(prompt)] = std::move(answer);
  }

  std::string_view name() const override { return "tree"; }

  void propose(std::span<const DraftAsk> asks) override {
    for (const DraftAsk& ask : asks) {
      const auto known = answers_.find(ask.sequence.request.prompt);
      if (known == answers_.end()) continue;
      const std::int64_t output = ask.sequence.num_output_tokens();
      const std::int64_t end = std::min(output + std::min(ask.most, depth_), std::ssize(known->second));
      std::int32_t at = -1;  // where the right path is
      for (std::int64_t i = output; i < end; ++i) at = add_place(known->second, i, at, ask.draft);
      proposed_ += ask.draft.size();
    }
  }

  std::int64_t proposed() const { return proposed_; }

 private:
  // At some places a wrong way goes before the right one, at some behind it, and some have no other.
  static std::int32_t add_place(const std::vector<TokenId>& answer, std::int64_t i, std::int32_t at, Draft& draft) {
    const TokenId right = answer[static_cast<size_t>(i)];
    const TokenId wrong = (right + 1) % 101;
    const std::int64_t kind = i % 5;
    if (kind == 1 || kind == 4) {
      draft.add_behind(at, wrong, 0.5F);
      draft.add(wrong, 0.5F);
    }
    draft.add_behind(at, right, 0.4F);
    const std::int32_t here = draft.size() - 1;
    if (kind == 2) draft.add_behind(at, wrong, 0.2F);
    return here;
  }

  std::int64_t depth_;
  std::map<std::vector<TokenId>, std::vector<TokenId>> answers_;
  std::int64_t proposed_ = 0;
};

}  // namespace kvasir::testing
