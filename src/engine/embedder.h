// Texts to vectors or scores, beside the engine's requests: a text is read once, nothing of it is kept, and nothing
// is looked up. Keys and values lie in a scratch memory for as long as a step lasts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/model.h"
#include "model/row_head.h"
#include "model/scratch_rows.h"

namespace kvasir {

// Texts of many lengths run as one batch, without padding. What is made of a text is the same, to the bit, whatever
// runs beside it. Used by one thread at a time, and by none while the model runs elsewhere.
class Embedder {
 public:
  // `context`: the longest text that is asked for; 0: as long as the model takes. Backend and model outlive it.
  Embedder(Backend& backend, Model& model, std::int64_t context);

  std::int64_t longest() const { return longest_; }  // tokens of a text
  int vocab() const { return model_.config().vocab; }

  struct Text {
    std::span<const TokenId> tokens;
    std::span<const TokenId> types = {};  // of each token, of a model that has such; empty: all are 0
    const RowHead* head = nullptr;        // what is made of its rows
  };

  // Throws Error unless it has 1 to longest() tokens, all of the vocabulary, of types that there are, and the model
  // keeps no states.
  void check(const Text& text) const;

  // How many of these, from the first on, one step takes: at least one.
  size_t fit(std::span<const Text> texts) const;

  // REQUIRES: fit() of them, each of which check() lets pass.
  std::vector<std::vector<float>> run(std::span<const Text> texts);

 private:
  std::vector<float> step(const Batch& batch, ScratchRows& scratch);
  std::vector<float> run_in_parts(const Text& text);

  Backend& backend_;
  Model& model_;
  std::int64_t longest_;
  std::unique_ptr<ScratchRows> scratch_;  // of texts that one step takes; made when it is first needed
};

}  // namespace kvasir
