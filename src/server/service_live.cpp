// What the page shows of the cache: a stream of changes, a block, what a request holds; and the planner.
#include <fmt/format.h>

#include "server/api/api_error.h"
#include "server/http/sse.h"
#include "server/service.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

constexpr double kMostPlanned = 1e12;
constexpr std::string_view kProgramVersion = KVASIR_VERSION;

[[noreturn]] void not_here(const char* what, std::string_view name) {
  throw ApiError({.status = 404, .type = "not_found_error", .code = "not_here"},
                 fmt::format("there is no {} '{}' here now", what, excerpt(name, 40)));
}

OrderedJson latency_json(const Histogram& histogram) {
  return {{"bounds", histogram.bounds()}, {"counts", histogram.counts()}, {"sum", histogram.sum()}};
}

OrderedJson speculation_json(const SpeculationCounts& counts) {
  OrderedJson drafters = OrderedJson::array();
  std::int64_t drafts = 0;
  std::int64_t proposed = 0;
  std::int64_t accepted = 0;
  for (const DrafterCounts& one : counts.drafters) {
    drafters.push_back({one.name, one.drafts, one.proposed, one.accepted});
    drafts += one.drafts;
    proposed += one.proposed;
    accepted += one.accepted;
  }
  return {{"drafts", drafts},
          {"draft_tokens", proposed},
          {"accepted_tokens", accepted},
          {"drafting_seconds", counts.drafting_seconds},
          {"saved_seconds", counts.saved_seconds},
          {"drafters", std::move(drafters)}};
}

PlanQuestion plan_question(const Json& body) {
  const Fields fields(body);
  PlanQuestion asked;
  asked.model = fields.text("model").value_or("");
  asked.context = fields.integer("context", {1, kMostPlanned}).value_or(0);
  asked.users = fields.integer("users", {1, 1e9}).value_or(1);
  asked.kv = fields.text("kv").value_or("");
  asked.weights_dtype = fields.text("weights_dtype").value_or("");
  asked.memory = fields.text("memory").value_or("");
  asked.gpu = fields.text("gpu").value_or("");
  asked.reserve = fields.text("reserve").value_or("");
  asked.block_tokens = static_cast<int>(fields.integer("block_size", {1, 4096}).value_or(0));
  if (asked.kv.starts_with('@')) bad_param("kv", "kv is a policy, not a file");
  if (!asked.memory.empty() && !asked.gpu.empty()) bad_param("gpu", "give memory or gpu, not both");
  return asked;
}

}  // namespace

Response Service::page(const HttpRequest& request) {
  if (!is_page(request.path)) not_here("file", request.path);
  return page_response(request);
}

OrderedJson Service::live_hello(const Caller& caller) const {
  const EngineConfig& config = model_.engine.config();
  OrderedJson tenants = OrderedJson::array();
  for (const auto& one : tenants_.all()) {
    if (caller.sees == KeyEntry::Sees::kAll || one->id == caller.id) tenants.push_back({one->id, one->name});
  }
  return {{"version", kProgramVersion},
          {"model", options_.model_name},
          {"device", model_.backend->description()},
          {"started", started_},
          {"open", tenants_.open()},
          {"caller", caller.name},
          {"operator", caller.sees == KeyEntry::Sees::kAll},
          {"tenants", std::move(tenants)},
          {"texts", options_.block_texts == ServiceOptions::BlockTexts::kToOwner},
          {"chats", model_.chat.has_value() && !model_.model->config().encodes()},
          {"plans", static_cast<bool>(options_.planner.plan)},
          {"context", model_.engine.longest_of(caller.id)},
          {"parameters", parameter_count(model_.model->config())},
          {"weight_bytes", model_.model->weight_bytes()},
          {"block_tokens", config.block_tokens},
          {"kv_bytes", config.kv_bytes},
          {"kv", to_text(config.kv)},
          {"kv_allowed", allowed_policies(config)},
          {"eviction", config.eviction},
          {"max_sequences", config.scheduler.max_sequences},
          {"max_batch_tokens", config.scheduler.max_batch_tokens}};
}

OrderedJson Service::live_numbers(const Caller& caller) {
  if (caller.sees != KeyEntry::Sees::kAll) {
    const TenantStats own = engine_.ask([id = caller.id](Engine& engine) { return engine.cache().tenant_stats(id); });
    return {{"queried", own.queried_tokens},
            {"hit", own.hit_tokens},
            {"evicted", own.evicted_blocks},
            {"tenants", OrderedJson::array({{caller.id, own.blocks, own.bytes, own.queried_tokens, own.hit_tokens,
                                             own.evicted_blocks}})}};
  }
  const EngineNumbers engine = engine_numbers();
  const ServedNumbers served = metrics_.numbers();
  OrderedJson tenants = OrderedJson::array();
  const auto callers = tenants_.all();
  for (size_t i = 0; i < std::min(callers.size(), engine.tenants.size()); ++i) {
    const TenantStats& stats = engine.tenants[i].stats;
    tenants.push_back(
        {callers[i]->id, stats.blocks, stats.bytes, stats.queried_tokens, stats.hit_tokens, stats.evicted_blocks});
  }
  return {{"running", engine.running},
          {"waiting", engine.waiting},
          {"blocks", engine.blocks},
          {"held", engine.held_blocks},
          {"cached", engine.cached_blocks},
          {"pinned", engine.pinned_blocks},
          {"swapped_bytes", engine.swapped_bytes},
          {"moved_pages", engine.moved_pages},
          {"queried", engine.queried_tokens},
          {"hit", engine.hit_tokens},
          {"evicted", engine.evicted_blocks},
          {"speculation", speculation_json(engine.speculation)},
          {"recomputes", engine.scheduler.recomputes},
          {"swaps", engine.scheduler.swaps},
          {"prompt_tokens", served.prompt_tokens},
          {"reused_tokens", served.reused_tokens},
          {"answer_tokens", served.generated_tokens},
          {"first_token", latency_json(served.first_token)},
          {"next_token", latency_json(served.next_token)},
          {"tenants", std::move(tenants)}};
}

Response Service::live(const HttpRequest& request) {
  Response response;
  if (request.method != "HEAD") {
    response.work = feed_.watch(caller_of(request));
    response.body = Response::Body::kStreamed;
  }
  response.reply.content_type = kSseType;
  response.reply.headers = {{"cache-control", "no-store"}, {"x-accel-buffering", "no"}};
  response.heartbeat = kSsePing;
  return response;
}

// Text is its owner's. An operator is told of others' blocks, and not what is in them.
Response Service::block_by_key(const HttpRequest& request) {
  const std::string name = request.path.substr(std::string_view("/kvasir/blocks/").size());
  const std::optional<std::uint64_t> key = parse_short_key(name);
  if (!key) not_here("block", name);
  const std::shared_ptr<const Caller> caller = caller_of(request);
  struct Found {
    BlockInfo info;
    Tokens tokens;
    std::vector<RequestId> holders;
  };
  const std::optional<Found> found = engine_.ask([key = *key](Engine& engine) -> std::optional<Found> {
    const KvCache& cache = engine.cache();
    const std::optional<BlockInfo> info = cache.find_key(key);
    if (!info) return std::nullopt;
    const std::span<const TokenId> tokens = cache.published_tokens(*info);
    return Found{*info, {tokens.begin(), tokens.end()}, holders_of(engine, *info)};
  });
  const bool own = found && found->info.owner == caller->id + 1;
  if (!own && (!found || caller->sees != KeyEntry::Sees::kAll)) not_here("block", name);
  OrderedJson text = nullptr;
  if (own && options_.block_texts == ServiceOptions::BlockTexts::kToOwner)
    text = to_valid_utf8(detokenize(model_.tokenizer, found->tokens, Tokenizer::SkipSpecials::kKeep));
  OrderedJson holders = OrderedJson::array();
  for (const RequestId id : found->holders) holders.push_back(task_number(*caller, id));
  return json_response({{"key", name},
                        {"cell", cell_number(*caller, found->info.group, found->info.block)},
                        {"refs", found->info.refs},
                        {"place", found->info.block_index},
                        {"tokens", found->tokens.size()},
                        {"text", std::move(text)},
                        {"requests", std::move(holders)}});
}

Response Service::running_blocks(const HttpRequest& request) {
  const std::string name = request.path.substr(std::string_view("/kvasir/running/").size());
  const std::shared_ptr<const Caller> caller = caller_of(request);
  const bool all = caller->sees == KeyEntry::Sees::kAll;
  using Blocks = std::optional<std::vector<BlockPlace>>;
  const Blocks blocks = engine_.ask([&](Engine& engine) -> Blocks {
    std::optional<RequestId> id;
    engine.scheduler().each([&](const Sequence& sequence) {
      if (!all && sequence.request.tenant.id != caller->id) return;
      if (fmt::format("{}", task_number(*caller, sequence.id)) == name) id = sequence.id;
    });
    if (!id) return std::nullopt;
    return blocks_of(engine, *id);
  });
  if (!blocks) not_here("running request", name);
  OrderedJson cells = OrderedJson::array();
  for (const BlockPlace& place : *blocks) cells.push_back(cell_number(*caller, place.group, place.block));
  return json_response({{"id", name}, {"cells", std::move(cells)}});
}

Response Service::plan_choices(const HttpRequest&) {
  if (!options_.planner.choices) not_here("planner", "plan");
  Response response;
  response.reply.body = options_.planner.choices();
  return response;
}

Response Service::plan(const HttpRequest& request) {
  if (!options_.planner.plan) not_here("planner", "plan");
  Response response;
  response.reply.body = options_.planner.plan(plan_question(parse_json(request.body)));
  return response;
}

}  // namespace kvasir
