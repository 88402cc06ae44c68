// From a drafting model's logits to guesses: drawn as the target's tokens will be, with the request's own seed and
// the noise of the place where a guess would stand. So a model that says what its target says guesses right, sampled
// or not.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
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
  };

  // The backend outlives it. `tokens`: which of the target's each of the model's tokens is; none: the same.
  explicit GuessSampler(Backend& backend, std::vector<TokenId> tokens = {})
      : backend_(backend), tokens_(std::move(tokens)) {}

  // One guess of each row of logits, valid until the next call.
  std::span<const Guess> sample(Matrix logits, std::span<const Row> rows);

 private:
  std::span<float> logits_of(std::size_t row, std::size_t vocab);

  Backend& backend_;
  std::vector<TokenId> tokens_;
  // Of a pass; kept between passes.
  std::vector<Guess> guesses_;
  std::vector<float> logits_;
  std::vector<float> spread_;  // one row, as the target's tokens are numbered
  std::vector<TokenId> sampled_;
  std::vector<SampleRule> rules_;
};

}  // namespace kvasir
