// From a drafting model's logits to guesses: drawn as the target's tokens will be, with the request's own seed and
// the noise of the place where a guess would stand. So a model that says what its target says guesses right, sampled
// or not.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/draft/draft.h"
#include "sample/sampler.h"

namespace kvasir {

inline constexpr float kLeastConfidence = 0.12F;  // behind a guess that is less sure nothing is guessed

struct Guess {
  TokenId token = -1;
  float sure = 0;  // 0 to 1
};

// A request's sampling, without what depends on the answer so far: that costs more than a wrong guess.
SamplingParams draft_params(SamplingParams params);

class GuessSampler {
 public:
  struct Row {
    Sampler* sampler = nullptr;
    Position position = 0;  // where the guess would stand
    int branches = 1;       // guesses of the same place
  };

  // The backend outlives it. `tokens`: which of the target's each of the model's tokens is; none: the same. `vocab`:
  // of the target; what is beyond it is no guess.
  explicit GuessSampler(Backend& backend, std::vector<TokenId> tokens = {},
                        int vocab = std::numeric_limits<int>::max())
      : backend_(backend), tokens_(std::move(tokens)), vocab_(vocab) {}

  // Of each row of logits as many guesses as it has branches, fewer where there are none: the likeliest first. Valid
  // until the next call.
  std::span<const std::vector<Guess>> sample(Matrix logits, std::span<const Row> rows);

  // The first guess goes on with the draft, which is a chain so far; the others join it when no pass follows.
  void add(std::span<const Guess> guesses, Draft& draft);
  void add_branches();

 private:
  struct Branch {
    Draft* draft = nullptr;
    std::int32_t parent = -1;
    Guess guess;
  };

  std::span<float> logits_of(std::size_t row, std::size_t vocab);
  void guess(std::span<float> logits, const Row& row, std::vector<Guess>& out) const;
  std::vector<Guess>& guesses_of(std::size_t row);

  Backend& backend_;
  std::vector<TokenId> tokens_;
  int vocab_;
  // Of a pass; kept between passes.
  std::vector<std::vector<Guess>> guesses_;  // [rows], and more
  std::vector<Branch> branches_;
  std::vector<float> logits_;
  std::vector<float> spread_;  // one row, as the target's tokens are numbered
  std::vector<TokenId> sampled_;
  std::vector<SampleRule> rules_;
};

}  // namespace kvasir
