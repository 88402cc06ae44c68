#include "engine/schedule/preemption.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace kvasir {
namespace {

std::int64_t remaining(const Sequence& s) {
  return std::max<std::int64_t>(s.request.max_tokens - s.num_output_tokens(), 1) +
         std::max<std::int64_t>(s.num_uncomputed_tokens() - 1, 0);
}

// Steps until one of these ends at the latest: a bound, since a stop token may come sooner.
std::int64_t steps_until_an_end(std::span<Sequence* const> others) {
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();
  for (const Sequence* s : others) {
    if (!s->stalled) steps = std::min(steps, remaining(*s));
  }
  return steps;
}

PreemptionChoice cheapest_for(const PreemptionQuestion& q, Sequence& candidate) {
  const std::int64_t size = q.cache.block_tokens();
  const Position length = candidate.lease.length();
  const std::int64_t freed =
      q.cache.private_blocks(candidate.lease) / std::ssize(q.cache.groups_of(candidate.lease.policy()));
  // Taken at once: what is asked for; and while it is away, about a block for each of the others.
  const std::int64_t taken = q.rows / size + 1 + std::ssize(q.running);
  const bool all = !q.cache.shares(candidate.lease.policy());  // nothing of it can be found again
  const std::int64_t evicted = all ? length : std::min(length, std::min(freed, taken) * size + length % size);
  const std::int64_t lost = std::max(evicted, length - q.cache.found_again(candidate.lease));
  PreemptionChoice best{&candidate, Preemption::How::kRecompute, static_cast<double>(lost) * q.costs.token_seconds};
  const std::uint64_t bytes = q.swap == nullptr ? 0 : q.swap->bytes_for(q.cache, candidate.lease);
  if (bytes > 0 && q.swap->has_room(bytes)) {
    const double seconds = 2 * static_cast<double>(bytes) / q.costs.swap_bytes_per_second;
    if (seconds < best.seconds) best = {&candidate, Preemption::How::kSwap, seconds};
  }
  return best;
}

}  // namespace

std::string_view name_of(Preemption::How how) {
  switch (how) {
    case Preemption::How::kRecompute:
      return "recompute";
    case Preemption::How::kSwap:
      return "swap";
    case Preemption::How::kWait:
      break;
  }
  return "wait";
}

std::string describe(std::string_view request, const Preemption& preemption) {
  const std::string_view what = preemption.how == Preemption::How::kSwap ? "paused request {}, swapped to host memory"
                                : preemption.how == Preemption::How::kWait ? "request {} waits for blocks"
                                                                           : "paused request {}";
  return fmt::format("{}, kept {} of {} tokens, about {:.0f} ms to resume", fmt::format(fmt::runtime(what), request),
                     preemption.kept_tokens, preemption.of_tokens, preemption.resume_seconds * 1e3);
}

std::optional<PreemptionChoice> choose_preemption(const PreemptionQuestion& q) {
  const bool own_only = q.cache.shortage(q.asking.lease, q.rows) == KvCache::Shortage::kQuota;
  std::vector<Sequence*> concerned;
  for (const auto& s : q.running) {
    if (!own_only || s->request.tenant.id == q.asking.request.tenant.id) concerned.push_back(s.get());
  }
  const auto came = [](const Sequence* s) { return s->arrival; };
  const auto came_first = [](const std::unique_ptr<Sequence>& s) { return s->arrival; };
  const Sequence* oldest = *std::ranges::min_element(concerned, {}, came);
  const Sequence* oldest_of_all = std::ranges::min_element(q.running, {}, came_first)->get();
  std::vector<Sequence*> candidates = concerned;
  std::erase_if(candidates, [&](const Sequence* s) { return s == oldest || s == oldest_of_all; });
  const auto over = [&](const Sequence* s) { return q.cache.over_guarantee(s->request.tenant.id); };
  if (std::ranges::any_of(candidates, over)) std::erase_if(candidates, [&](const Sequence* s) { return !over(s); });
  // What another has within its guarantee stays its own when it pauses: nothing would be won, as long as somebody
  // else can.
  const auto own = [&](const Sequence* s) { return s->request.tenant.id == q.asking.request.tenant.id; };
  if (std::ranges::any_of(candidates, [&](const Sequence* s) { return own(s) || over(s); }))
    std::erase_if(candidates, [&](const Sequence* s) { return !own(s) && !over(s); });

  std::optional<PreemptionChoice> best;
  double best_cost = 0;
  for (Sequence* candidate : candidates) {
    const PreemptionChoice choice = cheapest_for(q, *candidate);
    // Who paused before is dearer, so that it is not always the same; of equals the youngest goes.
    const double cost = choice.seconds * static_cast<double>(1 + candidate->record.preemptions);
    if (best && (cost > best_cost || (cost == best_cost && candidate->arrival < best->who->arrival))) continue;
    best = choice;
    best_cost = cost;
  }
  if (!best || &q.asking == oldest) return best;
  std::erase(concerned, &q.asking);
  const std::int64_t steps = steps_until_an_end(concerned);
  if (steps == std::numeric_limits<std::int64_t>::max()) return best;
  const double waiting = static_cast<double>(steps) * q.costs.step_seconds;
  if (waiting < best_cost) return PreemptionChoice{&q.asking, Preemption::How::kWait, waiting};
  return best;
}

}  // namespace kvasir
