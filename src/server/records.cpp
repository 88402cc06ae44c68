#include "server/records.h"

#include <algorithm>

namespace kvasir {

namespace {

OrderedJson to_json(const Chunk& chunk) {
  return {{"position", chunk.position}, {"tokens", chunk.tokens}, {"seconds", chunk.seconds}};
}

OrderedJson to_json(const Pause& pause) {
  return {{"how", name_of(pause.how)},
          {"kept_tokens", pause.kept_tokens},
          {"of_tokens", pause.of_tokens},
          {"resume_seconds", pause.resume_seconds}};
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

size_t FinishedRecord::bytes() const {
  constexpr size_t kExplanation = 2048;  // of `cache`, whose texts are short
  size_t sum = sizeof *this + kExplanation + request_id.size() + answer_id.size() + path.size() +
               finish_reasons.size() * sizeof(std::string);
  for (const Task& task : tasks) {
    sum += sizeof task + task.record.kv.size() + task.record.failure.size() +
           task.record.chunks.capacity() * sizeof(Chunk) + task.record.pauses.capacity() * sizeof(Pause);
  }
  return sum;
}

void Records::add(FinishedRecord record) {
  const size_t bytes = record.bytes();
  if (bytes > limits_.bytes || limits_.records == 0) return;
  const std::lock_guard lock(mutex_);
  Shelf& shelf = shelves_[record.tenant];
  shelf.bytes += bytes;
  shelf.records.push_front(std::move(record));
  while (shelf.bytes > limits_.bytes || shelf.records.size() > limits_.records) {
    shelf.bytes -= shelf.records.back().bytes();
    shelf.records.pop_back();
  }
}

std::optional<FinishedRecord> Records::find(std::uint32_t tenant, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto shelf = shelves_.find(tenant);
  if (shelf == shelves_.end()) return std::nullopt;
  const auto found = std::ranges::find_if(shelf->second.records, [&](const FinishedRecord& record) {
    return record.request_id == id || record.answer_id == id;
  });
  if (found == shelf->second.records.end()) return std::nullopt;
  return *found;
}

size_t Records::bytes(std::uint32_t tenant) const {
  const std::lock_guard lock(mutex_);
  const auto shelf = shelves_.find(tenant);
  return shelf == shelves_.end() ? 0 : shelf->second.bytes;
}

}  // namespace kvasir
