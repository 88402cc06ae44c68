// Texts read by an engine under one KV policy: what the model foretells at each of their tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace kvasir {

// One text at a time, a chunk of it at a time, so that several readers can go through it side by side and no more
// than a chunk's logits are ever kept.
class Reader {
 public:
  // `position` is that of the token which the logits foretell.
  using OnRow = std::function<void(Position position, std::span<const float> logits)>;

  // Backend and model outlive the reader. `context`: of the longest text.
  Reader(Backend& backend, Model& model, const EngineConfig& config, std::int64_t context);

  // With a cache as it is configured, for texts longer than it holds: the policy must have a window.
  Reader(Backend& backend, Model& model, const EngineConfig& config) : engine_(backend, model, config) {}

  // From now on this text; the one before must have been read to its end. on_row is told of every token from
  // `first_judged` on, in order. REQUIRES: 1 <= first_judged < tokens.size(). A policy that evicts tokens takes what
  // is not judged, and at least about half, for the prompt: a number of tokens at which chunks end as well.
  void open(std::span<const TokenId> tokens, Position first_judged);

  // Tokens of the text that were read so far.
  Position read();

  // Reads the next chunk. False, and nothing is read: the text is at its end. Throws Error when the model's logits
  // are not numbers.
  bool step(const OnRow& on_row);

  // Log-likelihood of `ending` after `beginning`. A beginning that was read before is found in the cache.
  double log_likelihood(std::span<const TokenId> beginning, std::span<const TokenId> ending);

  Engine& engine() { return engine_; }

 private:
  void open(std::span<const TokenId> tokens, Position first_judged, Position prompt);

  Engine engine_;
  Position length_ = 0;  // of the text, as far as it is read
  std::string failure_;
};

}  // namespace kvasir
