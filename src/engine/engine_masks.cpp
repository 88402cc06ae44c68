// Sequences whose form takes long to say which tokens it allows: the step goes on without them, and their next token
// is chosen from the logits they have once that is known. Answers are the same, and nobody else's tokens wait.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/engine.h"

namespace kvasir {
namespace {

// In steps of an automaton, some 8 ns each: a mask of honest schemas takes thousands.
constexpr std::size_t kWorkOfMask = std::size_t{1} << 15;
constexpr std::size_t kWorkOfStep = std::size_t{1} << 17;
constexpr std::chrono::milliseconds kLongestWait{1};

}  // namespace

void Engine::begin_masks() {
  mask_work_left_ = kWorkOfStep;
  const std::vector<Sequence*> parked = std::exchange(parked_, {});
  for (Sequence* sequence : parked) {
    if (sequence->finish != FinishReason::kNone || !sequence->mask->done) {
      parked_.push_back(sequence);
      continue;
    }
    take_mask(*sequence);
  }
}

// Its form knows what may come next, or that it takes too long to find out.
void Engine::take_mask(Sequence& sequence) {
  const std::shared_ptr<MaskWorker::Job> job = std::exchange(sequence.mask, nullptr);
  scheduler_.charge(sequence.request.tenant.id, job->seconds);
  sequence.slow_masks = job->work > kWorkOfMask;
  std::vector<float> logits = std::exchange(sequence.mask_logits, {});
  try {
    if (job->error) std::rethrow_exception(job->error);
  } catch (const std::exception& error) {
    return fail_for(sequence, error);
  }
  choose_or_fail(sequence, {logits, {}});
}

// Whether the form says at once which tokens it allows. False: the sequence waits for a worker to find out.
bool Engine::mask_is_ready(Sequence& sequence, std::span<const float> logits) {
  const std::shared_ptr<TokenConstraint> constraint = sequence.sampler.constraint();
  if (constraint == nullptr) return true;
  const double began = now();
  std::size_t work = sequence.slow_masks ? 0 : std::min(mask_work_left_, kWorkOfMask);
  mask_work_left_ -= work;
  const bool ready = constraint->prepare(work);
  mask_work_left_ += work;
  scheduler_.charge(sequence.request.tenant.id, now() - began);
  if (ready) return true;
  sequence.slow_masks = true;
  sequence.mask_logits.assign(logits.begin(), logits.end());
  sequence.mask = masks_.submit(sequence.request.tenant.id, constraint);
  parked_.push_back(&sequence);
  return false;
}

// Nobody can be given a row, but somebody will be.
void Engine::wait_for_masks() {
  if (!parked_.empty()) masks_.wait(kLongestWait);
}

}  // namespace kvasir
