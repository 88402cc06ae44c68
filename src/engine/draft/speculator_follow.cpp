// The part of Speculator that goes around a step: for drafters that read what the step makes of tokens.
#include "engine/draft/speculator.h"
#include "model/batch.h"

namespace kvasir {
namespace {

constexpr std::int64_t kGivenUp = 64;  // pauses so long: who follows every step stops doing so

}  // namespace

bool Speculator::may_follow(const Sequence& sequence) const {
  const Request& request = sequence.request;
  return request.speculative.most > 0 && !sequence.eviction && !request.score_from;
}

void Speculator::follow(std::span<const ScheduledTokens> scheduled, int most_rows) {
  int spare = most_rows;
  for (const ScheduledTokens& one : scheduled) {
    one.sequence->computed_again = 0;
    spare -= one.rows;
  }
  if (drafters_.empty() || !drafters_.back()->runs_passes()) return;
  for (const ScheduledTokens& one : scheduled) {
    Sequence& sequence = *one.sequence;
    if (one.sampled >= 0 || !may_follow(sequence)) continue;
    open(sequence);
    Track& track = sequence.drafts->tracks.back();
    if (!track.allowed) continue;
    if (track.next_pause >= kGivenUp) {  // it has not paid for long
      if (track.state != nullptr) track.state->let_go();
      continue;
    }
    const int again = one.draft.branches() ? std::min(spare, kMostTreeRows - one.rows) : spare;
    drafters_.back()->follow(sequence, track.state, again);
    spare -= static_cast<int>(sequence.computed_again);
  }
}

void Speculator::tap(std::span<const ScheduledTokens> scheduled, Batch& batch) {
  if (!drafters_.empty()) drafters_.back()->tap(scheduled, batch);
}

void Speculator::look_at(const ComputedRows& rows, const StepOutput& output) {
  Sequence& sequence = *rows.sequence;
  if (rows.rows == 0 || drafters_.empty() || !drafters_.back()->follows() || sequence.drafts == nullptr) return;
  Track& track = sequence.drafts->tracks.back();
  if (track.state == nullptr) return;
  const double began = p_.costs.now();
  drafters_.back()->computed(sequence, *track.state, output.path);
  const double seconds = p_.costs.now() - began;
  p_.scheduler.charge(sequence.request.tenant.id, seconds);
  p_.costs.spent_drafting(seconds);
  counts_.drafting_seconds += seconds;
}

}  // namespace kvasir
