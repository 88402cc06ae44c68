// Tokens from logits by plain loops: what every backend's draw() is compared with, beside the sampler.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace kvasir {

// -1 where the logits are no numbers.
TokenId draw_row(std::span<const float> logits, const DrawRule& rule);

// Draws that were made and not taken.
class RefDraws {
 public:
  DrawTicket draw(Matrix logits, std::span<const DrawRule> rules);
  DrawTicket last() const { return last_; }
  void take(DrawTicket ticket, std::span<TokenId> tokens);

  // `token`, or what was drawn in its place; any token where that is none.
  TokenId known(TokenId token) const;

 private:
  DrawTicket last_ = kNoDraw;
  std::vector<TokenId> of_last_;
  std::map<DrawTicket, std::vector<TokenId>> waiting_;
};

}  // namespace kvasir
