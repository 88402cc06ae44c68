// A step that the backend was given, until its rows are collected.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "engine/schedule/scheduler.h"
#include "engine/sequence.h"

namespace kvasir {

// The sequences of a step run as long as it is in flight, but for those that were forgotten.
struct InFlightStep {
  struct Rows {
    Sequence* sequence = nullptr;  // null: it ended meanwhile, and nobody wants what is sampled
    int rows = 0;
    DraftView draft{};
    int logit_rows = 0;     // of the batch's logits, or of what was sampled from them, …
    int first = 0;          // … from this one on
    bool completes = true;  // all that the sequence has is computed: its next token can be sampled
  };

  SampleTicket ticket = kNoSample;  // of tokens that the device samples; kNoSample: the logits are on the host
  ModelId model = 0;                // of the whole batch, where there is a ticket
  std::vector<Rows> scheduled;      // of a steady step none: they are the steady batch's, one each
  int rows = 0;                     // of the batch, …
  std::int64_t keys = 0;            // … and what they look at: see StepTime
  int samples = 0;                  // of the ticket
  double began = 0;                 // seconds, by the engine's clock
  bool active = false;
  bool steady = false;

  bool sampled_on_device() const { return ticket != kNoSample; }
  std::int64_t sequences() const {  // that are wanted
    return std::ranges::count_if(scheduled, [](const Rows& one) { return one.sequence != nullptr; });
  }
  bool forget(const Sequence& sequence) {  // false: it was not in it
    const auto found = std::ranges::find(scheduled, &sequence, &Rows::sequence);
    if (found == scheduled.end()) return false;
    found->sequence = nullptr;
    return true;
  }
};

// What a step computed for a sequence: its next tokens are sampled from the logits of its last rows, or were sampled
// from them on the device.
struct ComputedRows {
  Sequence* sequence = nullptr;
  int rows = 0;               // drafts included; 0: what it has waited with for a mask
  DraftView draft{};          // of the last rows
  std::span<float> logits{};  // [logit_rows][vocab]: scored rows, and, where it completes, 1 + draft
  int logit_rows = 1;
  std::span<const TokenId> sampled{};  // [1 + draft]; -1: its logits are no numbers
  bool completes = true;               // all that the sequence had is computed
};

// What became of that: the tokens that its sequence accepted, 1 or, where a draft was right, more; none where it
// ended or waits. They are the newest of the sequence's tokens. Valid until the next rows are accepted.
struct StepOutput {
  Sequence* sequence = nullptr;
  std::span<const TokenId> tokens{};
  std::span<const std::int32_t> path{};  // of the draft: what is the sequence's now; the rest was never there

  std::int64_t verified() const { return std::ssize(path); }
};

}  // namespace kvasir
