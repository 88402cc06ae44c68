// From logits to a token. A draw depends on the logits, the parameters, the seed and the position, and on nothing
// else: noise comes from hash(seed, position, token), never from a generator that other requests share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/sample_rule.h"
#include "sample/constraint.h"

namespace kvasir {

struct SamplingParams {
  float temperature = 0.8F;         // 0: greedy
  int top_k = 0;                    // keep the k likeliest; 0: all
  float top_p = 1.0F;               // keep the likeliest that together reach p
  float min_p = 0.0F;               // keep those at least min_p times as likely as the likeliest
  float repetition_penalty = 1.0F;  // of tokens in prompt and answer: positive logits divided, negative multiplied
  float frequency_penalty = 0.0F;   // subtracted once for every time the token is in the answer
  float presence_penalty = 0.0F;    // subtracted once if the token is in the answer
  std::vector<std::pair<TokenId, float>> logit_bias{};
  std::uint64_t seed = 0;
};

// Throws Error naming the parameter that is out of range. `where` says whose parameters they are.
void check_sampling(const SamplingParams& params, const std::string& where);

// NaN aside.
float largest_logit(std::span<const float> logits);

// Throws Error when logits are not numbers: a model that overflowed has nothing to say.
void check_logits(std::span<const float> logits);
[[noreturn]] void fail_on_logits();

// One sequence's sampler: the parameters, the counts that penalties need, and the form the answer must have.
class Sampler {
 public:
  Sampler(SamplingParams params, std::span<const TokenId> prompt);

  // From now on the answer keeps to this form.
  void constrain(std::shared_ptr<TokenConstraint> constraint) { constraint_ = std::move(constraint); }
  const std::shared_ptr<TokenConstraint>& constraint() const { return constraint_; }

  // The next token, which will stand at `position`. Changes `logits` in place. Throws Error when they are not
  // numbers, or when the form allows no token.
  TokenId sample(std::span<float> logits, Position position);

  // What sample() would do, for who draws elsewhere: a device that has the logits. None where it takes more than a
  // rule.
  std::optional<SampleRule> rule(Position position) const;

  // The token was appended: sample()'s answer, or one that was forced.
  void accept(TokenId token);

 private:
  struct Candidate {
    float logit;  // divided by the temperature
    TokenId token;
  };
  struct Count {
    int prompt = 0;
    int answer = 0;
  };

  void penalize(std::span<float> logits) const;
  void keep_candidates(std::span<const float> logits);
  void keep_likeliest_mass();
  TokenId draw(Position position) const;
  float min_p_margin() const;

  SamplingParams params_;
  std::unordered_map<TokenId, Count> counts_;    // only when a penalty needs them
  std::shared_ptr<TokenConstraint> constraint_;  // may be null
  std::vector<Candidate> candidates_;            // reused between calls
};

}  // namespace kvasir
