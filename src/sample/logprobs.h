// The logarithms of probabilities, of the model's own distribution: before temperature, penalties, bias and masks.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"

namespace kvasir {

struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0;
};

// What a request may ask to hear of each token: its own probability, and the likeliest ones.
struct TokenLogprobs {
  float chosen = 0;
  std::vector<TokenLogprob> top;  // likeliest first; of equals the smaller id
};

// Of a distribution, before the token is chosen: `top` of the likeliest, and what turns a logit into a
// log-probability. Requires logits that check_logits accepts.
class LogprobTable {
 public:
  LogprobTable(std::span<const float> logits, int top);

  TokenLogprobs of(float logit) const;  // of a token with this logit

 private:
  double log_sum_ = 0;  // log of the sum of exp(logit)
  std::vector<TokenLogprob> top_;
};

}  // namespace kvasir
