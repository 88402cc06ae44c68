// Guesses as often, and is as often right, as drafters were when a trace was recorded: what rows they took and what
// steps they saved is part of what a server did, though nobody knows of which texts they learned.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/draft/drafter.h"
#include "engine/sequence.h"

namespace kvasir {

class RecordedDrafter final : public Drafter {
 public:
  // Of a whole answer.
  struct Drafts {
    std::int64_t answer_tokens = 0;
    std::int64_t proposed = 0;
    std::int64_t accepted = 0;
    std::span<const TokenId> tokens;  // prompt and answer
  };
  using Find = std::function<Drafts(std::uint64_t seed)>;

  explicit RecordedDrafter(Find find) : find_(std::move(find)) {}

  std::string_view name() const override { return "recorded"; }
  void propose(std::span<const DraftAsk> asks) override {
    for (const DraftAsk& ask : asks) propose(ask);
  }

 private:
  // Right and wrong guesses are spread evenly over the steps that there were.
  void propose(const DraftAsk& ask) const {
    const Drafts drafts = find_(ask.sequence.request.sampling.seed);
    const std::int64_t steps = drafts.answer_tokens - drafts.accepted;
    if (drafts.proposed == 0 || steps <= 0) return;
    const std::int64_t done = ask.sequence.num_output_tokens();
    // Where the sequence is by now, in steps: each brought a token, and what was right.
    const double step =
        static_cast<double>(done) * static_cast<double>(steps) / static_cast<double>(drafts.answer_tokens);
    const auto until = [step](std::int64_t sum, std::int64_t all, double more) {
      return static_cast<std::int64_t>((step + more) * static_cast<double>(sum) / static_cast<double>(all));
    };
    const std::int64_t right = until(drafts.accepted, steps, 1) - until(drafts.accepted, steps, 0);
    const std::int64_t all = std::max(until(drafts.proposed, steps, 1) - until(drafts.proposed, steps, 0), right);
    for (std::int64_t i = 0; i < std::min(all, ask.most); ++i) {
      const auto at = static_cast<std::size_t>(std::ssize(ask.sequence.tokens) + i);
      if (at >= drafts.tokens.size()) return;
      const TokenId token = drafts.tokens[at];
      ask.draft.add(i < right ? token : token == 0 ? 1 : 0, 1);
    }
  }

  Find find_;
};

}  // namespace kvasir
