// The shortest way through a step: the same sequences once more, none of which ends, waits or is looked at.
#include <algorithm>

#include "base/check.h"
#include "engine/engine.h"

namespace kvasir {
namespace {

std::int64_t tokens_left(const Sequence& sequence, std::int64_t context) {
  return std::min(sequence.request.max_tokens - sequence.answered(), context - std::ssize(sequence.tokens));
}

bool has_few_stops(const Sequence& sequence) {
  return sequence.request.stop_tokens.size() <= FormationMember::kMostStops;
}

bool has_pins_to_come(const Sequence& sequence) {
  return sequence.pinned_breakpoints < sequence.request.breakpoints.size();
}

}  // namespace

// Behind a step that flew ahead, and is to be followed by more of its kind. REQUIRES: ahead_ is its plan, batch_ its
// batch and rules_ its draw.
void Engine::form_up() {
  CHECK(formation_.empty() && next_.plan.size() == ahead_.size());
  views_of_policy_.assign(views_of_policy_.size(), 0);
  for (const PlannedRows& planned : ahead_) {
    Sequence& sequence = *planned.sequence;
    if (!has_few_stops(sequence) || has_pins_to_come(sequence)) return formation_.clear();
    const PolicyId policy = sequence.lease.policy();
    if (views_of_policy_.size() <= policy) views_of_policy_.resize(policy + 1);
    FormationMember& member = formation_.emplace_back();
    member.sequence = &sequence;
    // The token of the step in the air comes first: it is the sequence's own affair (land()).
    member.left = tokens_left(sequence, config_.context) - 1;
    member.room =
        static_cast<std::int32_t>(config_.block_tokens - 1 - sequence.lease.length() % config_.block_tokens);
    member.view = views_of_policy_[policy]++;
    member.tenant = sequence.request.tenant.id;
    std::ranges::copy(sequence.request.stop_tokens, member.stops.begin());
  }
  next_.in_formation = true;
}

// What is noted becomes the sequence's, and what is cached the cache's.
void Engine::catch_up(FormationMember& member) {
  Sequence& sequence = *member.sequence;
  for (const TokenId token : std::span(member.noted).first(member.known)) {
    sequence.sampler.accept(token);
    sequence.tokens.push_back(token);
  }
  const auto done = static_cast<size_t>(sequence.lease.length());
  if (member.cached > 0) cache_.commit(sequence.lease, std::span(sequence.tokens).subspan(done, member.cached));
  member.known = 0;
  member.cached = 0;
}

void Engine::catch_up() {
  for (FormationMember& member : formation_) catch_up(member);
}

void Engine::break_up() {
  catch_up();
  formation_.clear();
  flying_.in_formation = false;
  next_.in_formation = false;
}

bool Engine::flies_on_in_formation() const {
  return flying_.in_formation &&
         std::ranges::all_of(formation_, [](const FormationMember& member) { return member.left > 1; });
}

// Its last block is full: the next row goes into another one. False: there is none to be had.
bool Engine::take_next_block(FormationMember& member) {
  catch_up(member);
  KvLease& lease = member.sequence->lease;
  if (!cache_.reserve(lease, 1)) return false;
  member.room = config_.block_tokens;
  const std::span<const size_t> groups = cache_.groups_of(lease.policy());
  for (size_t i = 0; i < groups.size(); ++i) {
    batch_.sequences[groups[i]][static_cast<size_t>(member.view)].blocks = lease.table(i).data();
  }
  return true;
}

// fly_ahead() for a formation. REQUIRES: flies_on_in_formation().
void Engine::fly_formation() {
  for (FormationMember& member : formation_) {
    RequestRecord& record = member.sequence->record;
    ++member.cached;
    ++record.computed_tokens;
    ++record.steps;
  }
  flying_.committed = true;
  for (FormationMember& member : formation_) {
    if (member.room == 0 && !take_next_block(member)) return break_up();
    --member.room;
    scheduler_.serve_ahead(member.tenant, 1);
  }
  scheduler_.count_step_ahead();
  for (size_t row = 0; row < formation_.size(); ++row) {
    batch_.tokens[row] = drawn_token(static_cast<int>(row));
    ++batch_.positions[row];
    ++rules_[row].position;
  }
  for (std::vector<SequenceView>& views : batch_.sequences) {
    for (SequenceView& view : views) ++view.start;
  }
  const double began = now();
  next_ = flying_;
  next_.ticket = backend_.draw(run_model(), rules_);
  CHECK(next_.in_the_air());
  next_.committed = false;
  next_.began = began;
  ++steps_ahead_;
}

bool Engine::ends_nobody(std::span<const TokenId> drawn) const {
  for (size_t row = 0; row < drawn.size(); ++row) {
    if (drawn[row] < 0 || formation_[row].stops_at(drawn[row])) return false;
  }
  return true;
}

// land() for a formation. REQUIRES: ends_nobody(drawn_)
void Engine::land_formation() {
  for (size_t row = 0; row < formation_.size(); ++row) {
    FormationMember& member = formation_[row];
    const Sequence& sequence = *member.sequence;
    if (sequence.finish != FinishReason::kNone) continue;  // cancelled by who was just told
    member.note(drawn_[row]);
    if (member.known == FormationMember::kMostNoted) catch_up(member);
    if (!sequence.on_update) continue;
    sequence.on_update({sequence.id, drawn_[row], FinishReason::kNone, nullptr, &sequence.record});
  }
}

}  // namespace kvasir
