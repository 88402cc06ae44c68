#include "engine/step/failures.h"

#include "base/error.h"

namespace kvasir {

void fail(Sequence& sequence, const std::string& why) {
  if (sequence.finish != FinishReason::kNone) return;
  sequence.finish = FinishReason::kFailed;
  sequence.record.failure = why;
}

void fail_for(Sequence& sequence, const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  if (known != nullptr && known->kind() == Error::Kind::kCapacity)
    sequence.record.fault = RequestRecord::Fault::kRequest;
  fail(sequence, error.what());
}

void notify_failed(RequestId id, const OnUpdate& listener, const std::string& why) {
  if (!listener) return;
  RequestRecord record;
  record.failure = why;
  listener({id, -1, FinishReason::kFailed, nullptr, &record});
}

}  // namespace kvasir
