#include "engine/step/mask_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace kvasir {
namespace {

// In steps of an automaton, some 8 ns each: a mask of honest schemas takes thousands.
constexpr std::size_t kWorkOfMask = std::size_t{1} << 15;
constexpr std::size_t kWorkOfStep = std::size_t{1} << 17;
constexpr std::chrono::milliseconds kLongestWait{1};

}  // namespace

std::span<Sequence* const> MaskQueue::begin_step() {
  work_left_ = kWorkOfStep;
  ready_.clear();
  std::erase_if(parked_, [this](Sequence* sequence) {
    const bool ready = sequence->finish == FinishReason::kNone && sequence->mask->done;
    if (ready) ready_.push_back(sequence);
    return ready;
  });
  return ready_;
}

std::vector<float> MaskQueue::take_logits(Sequence& sequence) {
  const std::shared_ptr<MaskWorker::Job> job = std::exchange(sequence.mask, nullptr);
  scheduler_.charge(sequence.request.tenant.id, job->seconds);
  sequence.slow_masks = job->work > kWorkOfMask;
  std::vector<float> logits = std::exchange(sequence.mask_logits, {});
  if (job->error) std::rethrow_exception(job->error);
  return logits;
}

bool MaskQueue::prepare(Sequence& sequence, std::span<const float> logits) {
  const std::shared_ptr<TokenConstraint> constraint = sequence.sampler.constraint();
  if (constraint == nullptr) return true;
  const auto began = std::chrono::steady_clock::now();
  std::size_t work = sequence.slow_masks ? 0 : std::min(work_left_, kWorkOfMask);
  work_left_ -= work;
  const bool ready = constraint->prepare(work);
  work_left_ += work;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  scheduler_.charge(sequence.request.tenant.id, took.count());
  if (ready) return true;
  sequence.slow_masks = true;
  sequence.mask_logits.assign(logits.begin(), logits.end());
  sequence.mask = worker_.submit(sequence.request.tenant.id, constraint);
  parked_.push_back(&sequence);
  return false;
}

void MaskQueue::wait() {
  if (!parked_.empty()) worker_.wait(kLongestWait);
}

}  // namespace kvasir
