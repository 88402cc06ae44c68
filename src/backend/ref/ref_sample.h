// Tokens from logits by plain loops: what every backend's sample() is compared with, beside the sampler.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace kvasir {

// -1 where the logits are no numbers.
TokenId sample_row(std::span<const float> logits, const SampleRule& rule);

// Draws that were made and not taken.
class RefSamples {
 public:
  SampleTicket sample(Matrix logits, std::span<const SampleRule> rules);
  SampleTicket last() const { return last_; }
  void take(SampleTicket ticket, std::span<TokenId> tokens);

  // `token`, or what was drawn in its place; any token where that is none.
  TokenId known(TokenId token) const;

 private:
  SampleTicket last_ = kNoSample;
  std::vector<TokenId> of_last_;
  std::map<SampleTicket, std::vector<TokenId>> waiting_;
};

}  // namespace kvasir
