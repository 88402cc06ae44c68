#include "server/records.h"

#include <algorithm>

namespace kvasir {

OrderedJson to_json(const FinishedRecord& record) {
  const Totals& totals = record.totals;
  return {{"id", record.request_id},
          {"answer_id", record.answer_id},
          {"path", record.path},
          {"created", record.created},
          {"finish_reasons", record.finish_reasons},
          {"prompt_tokens", totals.prompt_tokens},
          {"reused_tokens", totals.reused_tokens},
          {"cache_write_tokens", totals.written_tokens},
          {"answer_tokens", totals.answer_tokens},
          {"computed_tokens", totals.computed_tokens},
          {"steps", totals.steps},
          {"preemptions", totals.preemptions},
          {"first_token_seconds", totals.first_token_seconds},
          {"seconds", totals.seconds},
          {"cache", record.cache}};
}

void Records::add(FinishedRecord record) {
  const std::lock_guard lock(mutex_);
  std::deque<FinishedRecord>& theirs = records_[record.tenant];
  theirs.push_front(std::move(record));
  if (theirs.size() > capacity_) theirs.pop_back();
}

std::optional<FinishedRecord> Records::find(std::uint32_t tenant, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto theirs = records_.find(tenant);
  if (theirs == records_.end()) return std::nullopt;
  const auto found = std::ranges::find_if(theirs->second, [&](const FinishedRecord& record) {
    return record.request_id == id || record.answer_id == id;
  });
  if (found == theirs->second.end()) return std::nullopt;
  return *found;
}

}  // namespace kvasir
