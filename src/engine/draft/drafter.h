// Who guesses the next tokens of a sequence, so that one step can verify several of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "engine/draft/draft.h"

namespace kvasir {

struct Batch;
struct ScheduledTokens;
struct Sequence;

// What a drafter knows of one sequence. It goes with the sequence.
class DrafterState {
 public:
  DrafterState() = default;
  DrafterState(const DrafterState&) = delete;
  DrafterState& operator=(const DrafterState&) = delete;
  virtual ~DrafterState() = default;

  // The sequence pauses, or somebody needs room: blocks of the cache are let go. True: there were some.
  virtual bool let_go() { return false; }
};

struct DraftAsk {
  const Sequence& sequence;
  std::int64_t most = 0;                 // tokens of the main chain
  Draft& draft;                          // empty; left with what is proposed
  std::unique_ptr<DrafterState>& state;  // the drafter's own of this sequence; null at first
  int branches = 1;                      // that may follow the same token, at most; 1: a chain
};

// A guess changes no answer: each of its rows is sampled from as if there were no guess, and what was guessed wrong
// is never part of the sequence, nor found in the cache.
class Drafter {
 public:
  Drafter() = default;
  Drafter(const Drafter&) = delete;
  Drafter& operator=(const Drafter&) = delete;
  virtual ~Drafter() = default;

  virtual std::string_view name() const = 0;

  // Proposes tokens of the model's vocabulary for each, or none. Of branches, what is too much is left out.
  virtual void propose(std::span<const DraftAsk> asks) = 0;

  // Whether each token takes the pass of a model, and what one for so many sequences is estimated to take. Who costs
  // nothing is asked all the time: its guesses are compared with what comes, whether they were verified or not.
  virtual bool runs_passes() const { return false; }
  virtual double pass_seconds(int /*sequences*/) const { return 0; }
  // What it would take before the first token can be guessed, where the sequence's text is not known yet.
  virtual double catch_up_seconds(const Sequence& /*sequence*/, const DrafterState* /*state*/) const { return 0; }

  // Of who reads what the target makes of tokens (Batch::taps), and so follows a sequence's steps from the first on.
  // Whether it follows any: then no step begins before the one before it was looked at.
  virtual bool follows() const { return false; }
  // A step is to compute the sequence's next tokens. What is left in Sequence::computed_again, of so many at most, it
  // computes besides.
  virtual void follow(Sequence& /*sequence*/, std::unique_ptr<DrafterState>& /*state*/, int /*most_again*/) {}
  // The step's batch: what is wanted of it is added.
  virtual void tap(std::span<const ScheduledTokens> /*scheduled*/, Batch& /*batch*/) {}
  // It ran, and what was accepted is the sequence's: of its draft, these rows.
  virtual void computed(const Sequence& /*sequence*/, DrafterState& /*state*/,
                        std::span<const std::int32_t> /*path*/) {}

  // The sequence has ended.
  virtual void finished(const Sequence& /*sequence*/) {}
};

}  // namespace kvasir
