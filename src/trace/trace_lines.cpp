#include "trace/trace_lines.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "layout/kv_policy.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;

// What a name or a path holds may be no UTF-8.
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

double rounded(double seconds) { return std::round(seconds * 1e6) / 1e6; }

Json texts_of(const std::vector<KvPolicy>& policies) {
  auto out = Json::array();
  for (const KvPolicy& policy : policies) out.push_back(to_text(policy));
  return out;
}

Json engine_json(const EngineConfig& engine) {
  const SchedulerConfig& scheduler = engine.scheduler;
  Json out{{"context", engine.context},
           {"block_tokens", engine.block_tokens},
           {"kv", to_text(engine.kv)},
           {"kv_also", texts_of(engine.kv_also)},
           {"kv_any", engine.others == EngineConfig::OtherPolicies::kAny},
           {"kv_internal", texts_of(engine.internal_policies)},
           {"kv_bytes", engine.kv_bytes},
           {"swap_bytes", engine.swap_bytes.value_or(0)},
           {"eviction", engine.eviction},
           {"reuse", engine.reuse == CacheConfig::Reuse::kOn},
           {"recompute", engine.mode == EngineConfig::Mode::kRecompute},
           {"pinned_share", engine.pinned_share},
           {"max_batch_tokens", scheduler.max_batch_tokens},
           {"max_sequences", scheduler.max_sequences},
           {"chunk_tokens", scheduler.chunk_tokens},
           {"state_budget", scheduler.state_budget}};
  return out;
}

}  // namespace

std::string trace_line(const TraceConfig& config) {
  Json out{{"kvasir_trace", kTraceVersion},
           {"id", config.id},
           {"time", config.time},
           {"model", config.model},
           {"device", config.device},
           {"samples_on_device", config.samples == TraceConfig::Samples::kOnDevice},
           {"engine", engine_json(config.engine)}};
  return text_of(out);
}

std::string trace_line(const TracedRequest& request) {
  Json out{{"at", rounded(request.at)},       {"id", request.id},           {"prompt", request.prompt_tokens},
           {"answer", request.answer_tokens}, {"most", request.max_tokens}, {"finish", name_of(request.finish)}};
  if (request.twin_of != 0) out["twin_of"] = request.twin_of;
  if (request.tenant != 0) out["tenant"] = request.tenant;
  if (const auto& share = request.share) out["share"] = {share->guaranteed, share->most, share->weight};
  if (!request.kv.empty()) out["kv"] = request.kv;
  if (request.priority != 0) out["priority"] = request.priority;
  for (const Breakpoint& mark : request.breakpoints) out["keep"].push_back({mark.tokens, mark.keep.count()});
  if (const auto& measured = request.measured) {
    out["reused"] = measured->reused_tokens;
    out["computed"] = measured->computed_tokens;
    out["queue"] = rounded(measured->queue_seconds);
    out["first"] = rounded(measured->first_token_seconds);
    out["seconds"] = rounded(measured->seconds);
    if (measured->preemptions > 0) out["preemptions"] = measured->preemptions;
    if (measured->waits > 0) out["waits"] = measured->waits;
    if (measured->drafted > 0) out["drafted"] = {measured->drafted, measured->accepted};
  }
  out["tags"] = request.tags;
  return text_of(out);
}

std::string trace_line(const StepCosts& costs) {
  auto cells = Json::array();
  for (const StepCostCell& cell : costs.cells()) {
    cells.push_back({cell.steps, cell.rows, cell.keys, cell.samples, cell.seconds});
  }
  Json out{{"steps", std::move(cells)}};
  if (costs.swap_bytes_per_second) out["swap_bytes_per_second"] = *costs.swap_bytes_per_second;
  return text_of(out);
}

std::string lost_line(std::int64_t lines) { return text_of({{"lost", lines}}); }

}  // namespace kvasir
