// What runs and waits, as llama-server lists its slots. Here a slot is a request: there are as many as there are
// requests, and none is empty.
#include "server/service.h"

namespace kvasir {
namespace {

struct Slot {
  RequestId id = 0;
  bool running = false;
  std::int64_t prompt_tokens = 0;
  std::int64_t answer_tokens = 0;
  std::int64_t cached_tokens = 0;  // whose K and V it holds now
  std::int64_t reused_tokens = 0;
  std::int64_t held_blocks = 0;
  int preemptions = 0;
  std::string kv;  // its policy
};

std::int64_t held_blocks(const KvLease& lease, const KvCache& cache) {
  std::int64_t held = 0;
  for (size_t i = 0; i < cache.groups_of(lease.policy()).size(); ++i) {
    const BlockTable& table = lease.table(i);
    for (const BlockId block : table) held += block == kNoBlock ? 0 : 1;
  }
  return held;
}

Slot slot_of(const Sequence& sequence, const KvCache& cache) {
  Slot out;
  out.id = sequence.id;
  out.running = sequence.lease.valid();
  const Request& request = sequence.request;
  out.prompt_tokens = std::ssize(request.source.empty() ? request.prompt : request.source);
  out.answer_tokens = sequence.num_output_tokens();
  out.reused_tokens = sequence.record.reuse.of_prompt().reused_tokens;
  out.preemptions = sequence.record.preemptions;
  out.kv = sequence.record.kv;
  if (!out.running) return out;
  out.cached_tokens = sequence.lease.length();
  out.held_blocks = held_blocks(sequence.lease, cache);
  return out;
}

}  // namespace

Response Service::slots(const HttpRequest& request) {
  const std::shared_ptr<const Caller> caller = caller_of(request);
  const bool all = caller->sees == KeyEntry::Sees::kAll;
  const std::vector<Slot> found = engine_.ask([tenant = caller->id, all](Engine& engine) {
    std::vector<Slot> out;
    engine.scheduler().each([&](const Sequence& sequence) {
      if (all || sequence.request.tenant.id == tenant) out.push_back(slot_of(sequence, engine.cache()));
    });
    return out;
  });
  const std::map<RequestId, LiveRequests::Entry> names = live_.all();
  OrderedJson list = OrderedJson::array();
  for (const Slot& slot : found) {
    const auto name = names.find(slot.id);
    const bool known = name != names.end();  // it may have ended, or begun, since
    list.push_back({{"id", list.size()},
                    {"id_task", task_number(*caller, slot.id)},
                    {"n_ctx", model_.longest},
                    {"is_processing", slot.running},
                    {"request_id", known ? OrderedJson(name->second.request_id) : OrderedJson(nullptr)},
                    {"choice", known ? OrderedJson(name->second.choice) : OrderedJson(nullptr)},
                    {"state", slot.running ? "running" : "waiting"},
                    {"prompt_tokens", slot.prompt_tokens},
                    {"answer_tokens", slot.answer_tokens},
                    {"cached_tokens", slot.cached_tokens},
                    {"reused_tokens", slot.reused_tokens},
                    {"held_blocks", slot.held_blocks},
                    {"kv", slot.kv},
                    {"preemptions", slot.preemptions}});
  }
  return json_response(list);
}

}  // namespace kvasir
