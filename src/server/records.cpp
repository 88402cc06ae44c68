#include "server/records.h"

#include <algorithm>

namespace kvasir {

namespace {

OrderedJson to_json(const Chunk& chunk) {
  return {{"position", chunk.position}, {"tokens", chunk.tokens}, {"seconds", chunk.seconds}};
}

OrderedJson to_json(const Preemption& pause) {
  return {{"how", name_of(pause.how)},
          {"kept_tokens", pause.kept_tokens},
          {"of_tokens", pause.of_tokens},
          {"resume_seconds", pause.resume_seconds}};
}

OrderedJson to_json(const DraftRecord& draft) {
  return {{"drafter", draft.drafter},
          {"drafts", draft.drafts},
          {"draft_tokens", draft.proposed},
          {"accepted_tokens", draft.accepted},
          {"branch_tokens", draft.branch_proposed},
          {"accepted_branch_tokens", draft.branch_accepted}};
}

OrderedJson to_json(const FinishedRecord::Task& task);

template <class T>
OrderedJson to_list(const std::vector<T>& items) {
  OrderedJson list = OrderedJson::array();
  for (const T& item : items) list.push_back(to_json(item));
  return list;
}

OrderedJson to_json(const FinishedRecord::Task& task) {
  const RequestRecord& record = task.record;
  return {{"id_task", task.number},
          {"kv", record.kv},
          {"queue_seconds", record.queue_seconds},
          {"computed_tokens", record.computed_tokens},
          {"pinned_tokens", record.pinned_tokens},
          {"evicted_tokens", record.evicted_tokens},
          {"steps", record.steps},
          {"drafts", to_list(record.drafts)},
          {"chunks", to_list(record.chunks)},
          {"pauses", to_list(record.pauses)}};
}

}  // namespace

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
          {"cache", record.cache},
          {"tasks", to_list(record.tasks)}};
}

void Records::add(const FinishedRecord& record) {
  add_brief(record);
  Kept kept{record.request_id, record.answer_id, to_text(to_json(record))};
  const size_t bytes = kept.bytes();
  if (bytes > limits_.bytes || limits_.records == 0) return;
  const std::lock_guard lock(mutex_);
  TenantRecords& own = by_tenant_[record.tenant];
  own.bytes += bytes;
  own.records.push_front(std::move(kept));
  while (own.bytes > limits_.bytes || own.records.size() > limits_.records) {
    own.bytes -= own.records.back().bytes();
    own.records.pop_back();
  }
}

std::optional<std::string> Records::find(std::uint32_t tenant, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto own = by_tenant_.find(tenant);
  if (own == by_tenant_.end()) return std::nullopt;
  const auto found = std::ranges::find_if(
      own->second.records, [&](const Kept& kept) { return kept.request_id == id || kept.answer_id == id; });
  if (found == own->second.records.end()) return std::nullopt;
  return found->json;
}

// Requests are counted by task: by whom something made room is not told here, since numbers are each caller's own.
void Records::add_brief(const FinishedRecord& record) {
  const auto text_of = [&](const char* field) {
    const auto found = record.cache.find(field);
    return found == record.cache.end() ? OrderedJson(nullptr) : *found;
  };
  OrderedJson json = to_json(record);
  for (const char* field : {"cache", "tasks", "answer_id", "cache_write_tokens"}) json.erase(field);
  json["tenant"] = record.tenant;
  json["reason"] = text_of("reason");
  json["stopped_at"] = text_of("stopped_at");
  json["message"] = text_of("message");
  if (!record.tasks.empty()) {
    json["kv"] = record.tasks.front().record.kv;
    json["queue_seconds"] = record.tasks.front().record.queue_seconds;
  }
  Brief brief{record.tenant, {}, to_text(json).substr(1)};
  for (const FinishedRecord::Task& task : record.tasks) brief.tasks.push_back(task.task);
  const std::lock_guard lock(mutex_);
  briefs_.push_back(std::move(brief));
  if (briefs_.size() <= kMostBriefs) return;
  briefs_.pop_front();
  ++first_brief_;
}

std::string Records::told_since(std::uint64_t& from, const Caller& caller, size_t most) const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t end = first_brief_ + briefs_.size();
  const std::uint64_t begin = std::max({from, first_brief_, end > most ? end - most : 0});
  std::string out;
  for (std::uint64_t i = begin; i < end; ++i) {
    const Brief& brief = briefs_[static_cast<size_t>(i - first_brief_)];
    if (caller.sees != KeyEntry::Sees::kAll && brief.tenant != caller.id) continue;
    OrderedJson tasks = OrderedJson::array();
    for (const RequestId task : brief.tasks) tasks.push_back(task_number(caller, task));
    out += out.empty() ? "{\"tasks\":" : ",{\"tasks\":";
    out += to_text(tasks) + "," + brief.json;
  }
  from = end;
  return out;
}

size_t Records::bytes(std::uint32_t tenant) const {
  const std::lock_guard lock(mutex_);
  const auto own = by_tenant_.find(tenant);
  return own == by_tenant_.end() ? 0 : own->second.bytes;
}

}  // namespace kvasir
