// Steps whose tokens are drawn by the backend. The next one is launched before the tokens of this one are known on
// the host, where it can be: the device goes on while the host reads tokens, tells of them and plans.
//
// A step may fly ahead when everybody who runs gets a token and nobody joins, pauses or waits for logits. Who ends
// with a token that was not foreseen (a stop token, no numbers) has a row too many in it, which nobody looks at: it
// is written behind the last token of a sequence that lets go of the block, before anybody else writes there.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/batch_builder.h"
#include "engine/engine.h"

namespace kvasir {
namespace {

// Whether it has a next token when it has the one that is being drawn, unless that one ends it.
bool goes_on(const Sequence& sequence, std::int64_t context) {
  return sequence.answered() + 1 < sequence.request.max_tokens && std::ssize(sequence.tokens) + 1 < context;
}

}  // namespace

// Whether nobody but a rule looks at the logits of the sequence's token behind so many of its answer.
bool Engine::may_draw_in_backend(const Sequence& sequence, std::int64_t answered) const {
  const Request& request = sequence.request;
  const bool may_stop = answered >= request.min_tokens || request.stop_tokens.empty();
  return !observer_ && !request.logprobs && !request.score_from && sequence.forks.empty() && may_stop;
}

// False, and nothing done: somebody needs logits, or the backend cannot draw.
bool Engine::take_off(std::span<const PlannedRows> plan, Matrix logits, Flight& flight) {
  rules_.clear();
  flight.plan.clear();
  if (logits.rows == 0) return false;
  for (const PlannedRows& planned : plan) {
    const Sequence& sequence = *planned.sequence;
    flight.plan.push_back({planned.sequence, planned.rows, -1});
    if (logit_rows_of(planned) == 0) continue;
    const int unknown = planned.drawn >= 0 ? 1 : 0;
    const auto rule = sequence.sampler.rule(std::ssize(sequence.tokens) + unknown);
    if (!rule || !may_draw_in_backend(sequence, sequence.answered() + unknown)) return false;
    flight.plan.back().draw = static_cast<int>(rules_.size());
    rules_.push_back(*rule);
  }
  flight.ticket = backend_.draw(logits, rules_);
  flight.draws = static_cast<int>(rules_.size());
  flight.rows = batch_.rows();
  flight.committed = false;
  flight.in_formation = false;
  return flight.in_the_air();
}

// Launches the step behind the one in the air, if that can be foreseen.
void Engine::fly_ahead() {
  CHECK(flying_.in_the_air() && !next_.in_the_air());
  const bool foreseen = flying_.ticket == backend_.last_draw() && flying_.sequences() == scheduler_.running() &&
                        !flying_.committed && scheduler_.settled();
  if (foreseen && flies_on_in_formation()) return fly_formation();
  break_up();
  if (!foreseen || config_.mode == EngineConfig::Mode::kRecompute) return;
  ahead_.clear();
  for (const Flight::Rows& one : flying_.plan) {
    if (one.sequence == nullptr) continue;
    if (one.rows != 1 || one.draw < 0) return;
    Sequence& sequence = *one.sequence;
    if (sequence.finish != FinishReason::kNone || sequence.eviction) return;
    if (!goes_on(sequence, config_.context)) continue;
    if (!may_draw_in_backend(sequence, sequence.answered() + 1) || !sequence.sampler.rule(0)) return;
    ahead_.push_back({&sequence, 1, one.draw});
  }
  if (ahead_.empty()) return;
  // What it computes is in the order of the device: its rows may be built upon before they are there.
  for (const Flight::Rows& one : flying_.plan) {
    if (one.sequence != nullptr) advance(*one.sequence, one.rows);
  }
  flying_.committed = true;
  if (!scheduler_.reserve_ahead(cache_, ahead_)) return;
  const double began = now();
  CHECK(take_off(ahead_, enqueue(ahead_), next_));
  next_.began = began;
  ++steps_ahead_;
  form_up();
}

// Waits for the tokens of the step in the air.
void Engine::take_drawn() {
  drawn_.resize(static_cast<size_t>(flying_.draws));
  backend_.take_drawn(std::exchange(flying_.ticket, kNoDraw), drawn_);
}

void Engine::land() {
  take_drawn();
  const double landed = now();
  measure(flying_.rows, landed - std::max(flying_.began, landed_));
  landed_ = landed;
  if (flying_.in_formation && ends_nobody(drawn_)) {
    land_formation();
  } else {
    if (flying_.in_formation) break_up();
    land_each();
  }
  std::swap(flying_, next_);
}

void Engine::land_each() {
  for (const Flight::Rows& one : flying_.plan) {
    if (one.sequence == nullptr) continue;
    if (!flying_.committed) advance(*one.sequence, one.rows);
    if (one.draw >= 0) choose_or_fail(*one.sequence, {{}, drawn_[static_cast<size_t>(one.draw)]});
  }
}

// Nobody wants what it draws.
void Engine::abandon() {
  if (flying_.in_the_air()) take_drawn();
}

}  // namespace kvasir
