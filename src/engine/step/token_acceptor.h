// From what a step computed for a sequence to the tokens that it accepts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/listeners.h"
#include "engine/step/in_flight_step.h"
#include "engine/step/mask_queue.h"

namespace kvasir {

// Sampling a token and accepting it alternate: penalties and forms look at all tokens before.
class TokenAcceptor {
 public:
  // Both outlive this.
  TokenAcceptor(const EngineListeners& listeners, MaskQueue& masks) : listeners_(listeners), masks_(masks) {}

  // Samples from the rows in turn, each with its position, and appends the tokens to the sequence: the first, and one
  // more for each row of the draft that the token before makes the sequence's own. Where that is its last one, or one
  // that it stops at, the sequence has ended. What fails ends this sequence alone.
  StepOutput accept(const ComputedRows& rows);

 private:
  struct Sampled {
    TokenId token = -1;
    std::optional<TokenLogprobs> logprobs;
  };

  void show_scored(const ComputedRows& rows) const;
  void accept_rows(const ComputedRows& rows);
  std::optional<Sampled> sample(const ComputedRows& rows, size_t row);
  static Sampled sample_on_host(Sequence& sequence, std::span<float> logits);
  static bool append(Sequence& sequence, Sampled sampled);

  std::vector<std::int32_t> path_;  // of the rows that were accepted last
  const EngineListeners& listeners_;
  MaskQueue& masks_;
};

}  // namespace kvasir
