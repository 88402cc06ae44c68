// Sequences whose form takes long to say which tokens it allows: the step goes on without them, and their next token
// is sampled from the logits they have once that is known. Answers are the same, and nobody else's tokens wait.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/schedule/scheduler.h"
#include "engine/sequence.h"
#include "engine/step/mask_worker.h"

namespace kvasir {

class MaskQueue {
 public:
  // The scheduler outlives this: tenants are charged for the time that their masks take.
  explicit MaskQueue(Scheduler& scheduler) : scheduler_(scheduler) {}

  // A step begins: it has so much time for masks, and these sequences' are known, or never will be.
  std::span<Sequence* const> begin_step();
  // What a sequence of begin_step() has waited with. Throws what its form threw.
  std::vector<float> take_logits(Sequence& sequence);

  // Whether the sequence's form, if it has one, says at once which tokens it allows. False: the sequence waits for a
  // worker to find out, with these logits.
  bool prepare(Sequence& sequence, std::span<const float> logits);

  void forget(const Sequence& sequence) { std::erase(parked_, &sequence); }
  // Nobody can be given a row, but somebody will be.
  void wait();

 private:
  Scheduler& scheduler_;
  MaskWorker worker_;
  std::vector<Sequence*> parked_;  // that wait for a mask
  std::vector<Sequence*> ready_;   // of this step
  std::size_t work_left_ = 0;      // of this step
};

}  // namespace kvasir
