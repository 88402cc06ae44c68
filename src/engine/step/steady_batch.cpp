#include "engine/step/steady_batch.h"

#include <algorithm>

#include "base/check.h"

namespace kvasir {

bool SteadyBatch::enter(std::span<const ScheduledTokens> scheduled) {
  CHECK(slots_.empty());
  views_of_policy_.assign(views_of_policy_.size(), 0);
  const std::int32_t block_tokens = cache_.block_tokens();
  for (const ScheduledTokens& one : scheduled) {
    Sequence& sequence = *one.sequence;
    const bool few_stops = sequence.request.stop_tokens.size() <= DecodeSlot::kMostStops;
    if (!few_stops || sequence.has_pins_to_come()) {
      slots_.clear();
      return false;
    }
    const PolicyId policy = sequence.lease.policy();
    if (views_of_policy_.size() <= policy) views_of_policy_.resize(policy + 1);
    DecodeSlot& slot = slots_.emplace_back();
    slot.sequence = &sequence;
    // The token of the step that is collected first is the sequence's own affair: it is not in this batch.
    slot.tokens_left = sequence.num_tokens_left() - 1;
    slot.block_tokens_left = block_tokens - 1 - static_cast<std::int32_t>(std::ssize(sequence.tokens) % block_tokens);
    slot.view = views_of_policy_[policy]++;
    slot.tenant = sequence.request.tenant.id;
    std::ranges::copy(sequence.request.stop_tokens, slot.stops.begin());
  }
  return true;
}

void SteadyBatch::flush(DecodeSlot& slot) {
  Sequence& sequence = *slot.sequence;
  for (const TokenId token : std::span(slot.pending).first(slot.count)) {
    sequence.sampler.accept(token);
    sequence.tokens.push_back(token);
  }
  const auto done = static_cast<size_t>(sequence.lease.length());
  if (slot.count > 0) cache_.commit(sequence.lease, std::span(sequence.tokens).subspan(done, slot.count));
  slot.count = 0;
}

void SteadyBatch::flush() {
  for (DecodeSlot& slot : slots_) flush(slot);
}

void SteadyBatch::leave(std::vector<InFlightStep::Rows>& scheduled) {
  flush();
  scheduled.clear();
  for (int row = 0; row < std::ssize(slots_); ++row) {
    scheduled.push_back({slots_[static_cast<size_t>(row)].sequence, 1, {}, 1, row, true});
  }
  slots_.clear();
}

// Its last block is full with the row in flight: the next row goes into another one. False: there is none to be had.
bool SteadyBatch::take_next_block(DecodeSlot& slot, Batch& batch) {
  flush(slot);
  KvLease& lease = slot.sequence->lease;
  if (!cache_.reserve(lease, 2)) return false;
  slot.block_tokens_left = cache_.block_tokens();
  const std::span<const size_t> groups = cache_.groups_of(lease.policy());
  for (size_t i = 0; i < groups.size(); ++i) {
    batch.sequences[groups[i]][static_cast<size_t>(slot.view)].blocks = lease.table(i).data();
  }
  return true;
}

bool SteadyBatch::advance(StepBatch& batch) {
  for (DecodeSlot& slot : slots_) {
    if (slot.block_tokens_left == 0 && !take_next_block(slot, batch.rows)) return false;
    --slot.block_tokens_left;
    scheduler_.serve_ahead(slot.tenant, 1);
  }
  scheduler_.count_step_ahead();
  for (size_t row = 0; row < slots_.size(); ++row) {
    batch.rows.tokens[row] = sampled_token(static_cast<int>(row));
    ++batch.rows.positions[row];
    ++batch.rules[row].position;
  }
  for (std::vector<SequenceView>& views : batch.rows.sequences) {
    for (SequenceView& view : views) view.start += view.keys == 0 ? 1 : 0;  // a source does not grow
  }
  return true;
}

bool SteadyBatch::ends_nobody(std::span<const TokenId> sampled) const {
  for (size_t row = 0; row < sampled.size(); ++row) {
    if (sampled[row] < 0 || slots_[row].stops_at(sampled[row])) return false;
  }
  return true;
}

void SteadyBatch::publish(std::span<const TokenId> sampled) {
  for (size_t row = 0; row < slots_.size(); ++row) {
    DecodeSlot& slot = slots_[row];
    Sequence& sequence = *slot.sequence;
    if (sequence.finish != FinishReason::kNone) continue;  // cancelled by whose listener was just notified
    slot.add(sampled[row]);
    ++sequence.record.computed_tokens;
    ++sequence.record.steps;
    if (slot.count == DecodeSlot::kMostPending) flush(slot);
    if (!sequence.on_update) continue;
    sequence.on_update({sequence.id, sampled[row], FinishReason::kNone, nullptr, &sequence.record});
  }
}

}  // namespace kvasir
