// What becomes of requests when something fails that is no request's own fault: memory, a device, a bug of ours.
#include <exception>
#include <utility>

#include "base/error.h"
#include "engine/engine.h"

namespace kvasir {
namespace {

void fail(Sequence& sequence, const std::string& why) {
  if (sequence.finish != FinishReason::kNone) return;
  sequence.finish = FinishReason::kFailed;
  sequence.record.failure = why;
}

}  // namespace

// What cannot fit was asked for: the request is at fault.
void Engine::fail_for(Sequence& sequence, const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  if (known != nullptr && known->kind() == Error::Kind::kCapacity)
    sequence.record.fault = RequestRecord::Fault::kRequest;
  fail(sequence, error.what());
}

// What is in the air is waited for, since it writes to memory that is given away next; nobody looks at it.
void Engine::drop_flights() {
  formation_.clear();
  for (Flight* flight : {&flying_, &next_}) {
    try {
      drawn_.resize(static_cast<size_t>(flight->draws));
      if (flight->in_the_air()) backend_.take_drawn(std::exchange(flight->ticket, kNoDraw), drawn_);
    } catch (const std::exception&) {
      flight->ticket = kNoDraw;  // the device has failed, and will not write either
    }
    flight->plan.clear();
    flight->in_formation = false;
    flight->committed = false;
  }
}

void Engine::fail_step(const std::string& why) {
  drop_flights();
  bool ran = false;
  scheduler_.each_to_change([&](Sequence& sequence) {
    if (!sequence.lease.valid()) return;
    ran = true;
    fail(sequence, why);
  });
  if (!ran) scheduler_.each_to_change([&](Sequence& sequence) { fail(sequence, why); });
  finish_done();
}

// Told as an update without a sequence: there is none.
void Engine::tell_failed(RequestId id, const OnUpdate& listener, const std::string& why) {
  if (!listener) return;
  RequestRecord record;
  record.failure = why;
  listener({id, -1, FinishReason::kFailed, nullptr, &record});
}

}  // namespace kvasir
