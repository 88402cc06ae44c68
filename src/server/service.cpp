#include "server/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/hash.h"
#include "base/memory_reserve.h"
#include "server/api/api_error.h"
#include "server/http/sse.h"
#include "server/random_id.h"

namespace kvasir {
namespace {

constexpr std::uint64_t kChoiceSalt = 0x6b76617369720001;

// The first choice draws with the seed itself: n = 1 and the first of n = 4 are the same answer.
std::uint64_t seed_of_choice(std::uint64_t seed, size_t choice) {
  return choice == 0 ? seed : mix(seed, choice, kChoiceSalt);
}

// Of a tenant's requests. Without a word on it no tenant takes more than half of the places that there are for all.
std::int64_t places_of_each(const ServiceOptions& options, std::int64_t running) {
  if (options.max_queued_per_tenant) return running + *options.max_queued_per_tenant;
  const std::int64_t all = running + options.max_queued;
  return options.keys ? std::max<std::int64_t>(all / 2, 1) : all;
}

size_t longest_token(const Tokenizer& tokenizer) {
  size_t longest = 1;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) longest = std::max(longest, tokenizer.bytes_of(id).size());
  return longest;
}

// How the model's chat template takes system messages.
SystemTurns turns_of_template(const LoadedModel& model) {
  if (!model.chat) return SystemTurns::kAnywhere;
  return system_turns([&](const OrderedJson& messages) -> std::optional<std::string> {
    try {
      RenderOptions options;
      options.bos_token = model.tokenizer.bos_token().value_or("");
      options.eos_token = model.tokenizer.eos_token().value_or("");
      return text_of(model.chat->render(messages, options));
    } catch (const Error&) {
      return std::nullopt;
    }
  });
}

void check_bias(const SamplingParams& sampling, std::int64_t vocab) {
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (token >= vocab) {
      bad_param("logit_bias",
                fmt::format("token {} of logit_bias is not in the model's vocabulary of {}", token, vocab));
    }
  }
}

}  // namespace

Response json_response(const OrderedJson& json) {
  Response response;
  response.reply.body = to_text(json);
  return response;
}

Service::Service(LoadedModel& model, ServiceOptions options)
    : model_(model),
      options_(std::move(options)),
      metrics_(options_.model_name),
      records_(options_.kept_records),
      responses_(options_.kept_responses),
      prints_(options_.kept_prints),
      admission_(model.engine.config().scheduler.max_sequences + options_.max_queued),
      tenants_(options_.keys, places_of_each(options_, model.engine.config().scheduler.max_sequences)),
      longest_token_(longest_token(model.tokenizer)),
      formats_(model.tokenizer, model.model->config().eos),
      tool_dialect_(tool_dialect(model.tokenizer, options_.tool_format)),
      reasoning_(reasoning_dialect(model.tokenizer, options_.reasoning_format)),
      system_turns_(turns_of_template(model)),
      canary_(options_.canary,
              [this](const Canary::Verdict& verdict) {
                if (on_verdict_) on_verdict_(verdict);
              }),
      embeddings_(engine_, model.embedder),
      engine_(model.engine, &canary_),
      feed_({engine_, records_, [this](const Caller& caller) { return live_hello(caller); },
             [this](const Caller& caller) { return live_numbers(caller); }}) {
  set_shares();
  if (options_.canary.share > 0) {
    engine_.ask([this](Engine& engine) {
      canary_.watch(engine);
      return 0;
    });
  }
}

std::span<const Service::Route> Service::routes() {
  using enum Route::Match;
  static constexpr std::array<Route, 43> kRoutes{{
      {"POST", "/v1/chat/completions", &Service::openai_chat},
      {"POST", "/v1/completions", &Service::openai_completion},
      {"POST", "/v1/responses", &Service::openai_responses},
      {"POST", "/v1/responses/input_tokens", &Service::openai_input_tokens},
      {"GET", "/v1/responses/", &Service::kept_response, kBelow},
      {"DELETE", "/v1/responses/", &Service::drop_response, kBelow},
      {"GET", "/v1/models", &Service::models},
      {"GET", "/v1/models/", &Service::model_by_name, kBelow},
      {"POST", "/v1/messages", &Service::anthropic_messages},
      {"POST", "/v1/messages/count_tokens", &Service::anthropic_count},
      {"POST", "/api/chat", &Service::ollama_chat},
      {"POST", "/api/generate", &Service::ollama_generate},
      {"GET", "/api/tags", &Service::ollama_tags},
      {"GET", "/api/ps", &Service::ollama_ps},
      {"POST", "/api/show", &Service::ollama_show},
      {"GET", "/api/version", &Service::ollama_version},
      {"POST", "/v1/embeddings", &Service::openai_embeddings},
      {"POST", "/api/embed", &Service::ollama_embed},
      {"POST", "/api/embeddings", &Service::ollama_embeddings},
      {"POST", "/v1/rerank", &Service::rerank},
      {"POST", "/v1/reranking", &Service::rerank},  // as llama-server has it
      {"POST", "/v2/rerank", &Service::rerank},     // Cohere's
      {"POST", "/rerank", &Service::rerank},
      {"POST", "/reranking", &Service::rerank},
      {"POST", "/tokenize", &Service::tokenize},
      {"POST", "/detokenize", &Service::detokenize_tokens},
      {"POST", "/apply-template", &Service::apply_template},
      {"GET", "/", &Service::page, kExact, Lane::kNow},
      {"GET", "/page/", &Service::page, kBelow, Lane::kNow},
      {"GET", "/health", &Service::health, kExact, Lane::kNow},
      {"GET", "/v1/health", &Service::health, kExact, Lane::kNow},
      {"GET", "/health/ready", &Service::health, kExact, Lane::kNow},
      {"GET", kLivePath, &Service::health, kExact, Lane::kNow},
      {"GET", "/props", &Service::props},
      {"GET", "/slots", &Service::slots, kExact, Lane::kQuestion},
      {"GET", "/metrics", &Service::metrics_page, kExact, Lane::kQuestion},
      {"GET", "/kvasir/requests/", &Service::request_record, kBelow},
      {"GET", "/kvasir/live", &Service::live},
      {"GET", "/kvasir/blocks/", &Service::block_by_key, kBelow, Lane::kQuestion},
      {"GET", "/kvasir/running/", &Service::running_blocks, kBelow, Lane::kQuestion},
      {"GET", "/kvasir/plan", &Service::plan_choices},
      {"POST", "/kvasir/plan", &Service::plan},
      {"GET", "/models", &Service::models},
  }};
  return kRoutes;
}

Lane Service::lane(const HttpRequest& request) {
  const auto found = std::ranges::find_if(routes(), [&](const Route& route) { return route.fits(request.path); });
  return found == routes().end() ? Lane::kHandlers : found->lane;
}

bool Service::is_health(std::string_view path) {
  return std::ranges::any_of(routes(),
                             [&](const Route& route) { return route.fits(path) && route.lane == Lane::kNow; });
}

// What follows on every request, refused or not: the handler's time counts towards the tenant's turn (little of it is
// not worth telling the engine), and the memory that it took is given back.
class Service::Aftermath {
 public:
  Aftermath(Service& service, const HttpRequest& request) : service_(service), request_(request) {}
  ~Aftermath() {
    if (request_.method == "POST") service_.memory_.after(request_.body.size());
    charge();
  }
  Aftermath(const Aftermath&) = delete;
  Aftermath& operator=(const Aftermath&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  void charge() noexcept {
    constexpr double kWorthTelling = 1e-3;
    const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    const bool waits = Service::lane(request_) != Lane::kHandlers;  // for the engine: that is no work
    if (waits || seconds < kWorthTelling || !request_.caller) return;
    try {
      service_.engine_.charge(request_.caller->id, seconds);
    } catch (const std::bad_alloc&) {  // somebody is not charged
    }
  }

  Service& service_;
  const HttpRequest& request_;
  Clock::time_point began_ = Clock::now();
};

Response Service::handle(const HttpRequest& request) {
  const Dialect dialect = dialect_of(request.path);
  const auto failed = [&](const ApiError& error) {
    Response response;
    response.reply = error_reply(dialect, error);
    return response;
  };
  const Aftermath aftermath(*this, request);
  try {
    return dispatch(request);
  } catch (const Error& error) {
    return failed(ApiError::from(error));
  } catch (const std::bad_alloc&) {
    refill_memory_reserve();
    return failed(ApiError({.status = 503, .type = "unavailable_error", .retry_after_s = 1},
                           "there is not enough memory just now"));
  } catch (const std::exception& error) {
    return failed(ApiError({.status = 500, .type = "server_error"}, fmt::format("unexpected: {}", error.what())));
  }
}

Response Service::dispatch(const HttpRequest& request) {
  if (needs_key(request.path)) caller_of(request);  // refuses who was not identified
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  std::string allowed;
  for (const Route& route : routes()) {
    if (!route.fits(request.path)) continue;
    if (route.method == method) return (this->*route.handler)(request);
    allowed += allowed.empty() ? route.method : std::string(", ") + route.method;
  }
  if (allowed.empty()) {
    throw ApiError({.status = 404, .type = "not_found_error", .code = "unknown_url"},
                   fmt::format("there is no {} here; see GET /v1/models, POST /v1/chat/completions",
                               excerpt(request.path, 200)));
  }
  throw ApiError({.status = 405, .code = "method_not_allowed", .allow = allowed},
                 fmt::format("{} is asked with {}, not with {}", excerpt(request.path, 200), allowed,
                             excerpt(request.method, 20)));
}

SamplingParams Service::sampling_of(const AnswerOptions& options) const {
  return resolve_sampling(options.sampling, model_.sampling, options.named);
}

// All but the prompt, how long the answer may get, the seed and the form.
Request Service::engine_request(const AnswerOptions& options) const {
  Request request;
  request.sampling = sampling_of(options);
  request.kv = options.kv.policy;
  request.state_budget = options.kv.state_budget;
  request.stop_tokens = options.stop_token_ids;
  const std::vector<TokenId>& eos = model_.model->config().eos;
  if (!options.ignore_eos) request.stop_tokens.insert(request.stop_tokens.end(), eos.begin(), eos.end());
  request.min_tokens = options.min_tokens;
  request.logprobs = options.logprobs;
  request.priority = options.priority;
  request.speculative = options.speculative;
  return request;
}

std::vector<ChoiceRequest> Service::choices(AnswerJob& job, const Caller& caller) {
  const AnswerOptions& options = job.options;
  check_bias(options.sampling, model_.model->config().vocab);
  const std::shared_ptr<const TokenConstraint> constraint = constraint_of(job);
  std::vector<Admission::Ticket> tickets = admit(static_cast<std::int64_t>(job.prompts.size()) * options.n, caller);
  std::vector<TokenId> visible;
  if (!options.toolbox.tools.empty()) visible = tool_dialect_.marks;
  if (job.thoughts != Thoughts::kUnread)
    visible.insert(visible.end(), reasoning_.marks.begin(), reasoning_.marks.end());
  const auto stop = std::make_shared<const StopPatterns>(options.stop);
  const std::uint64_t seed = options.seed ? *options.seed : random_seed();
  check_text(options.prediction.size(), "prediction");
  const auto prediction =
      std::make_shared<const Tokens>(model_.tokenizer.encode(options.prediction, Tokenizer::Specials::kPlain));
  std::vector<ChoiceRequest> out;
  for (Tokens& prompt : job.prompts) {
    const size_t prompt_owner = out.size();
    for (size_t i = 0; i < static_cast<size_t>(options.n); ++i) {
      ChoiceRequest choice;
      Request& request = choice.request;
      request = engine_request(options);
      if (i == 0) request.prompt = std::exchange(prompt, {});
      request.tenant = cache_owner(caller, options.space);
      request.sampling.seed = seed_of_choice(seed, i);
      // A source takes nothing of its answer's context.
      const bool apart = model_.model->config().reads_source();
      const auto before = apart ? 1 : static_cast<std::int64_t>(request.prompt.size());
      const std::int64_t room = model_.engine.longest_of(caller.id) - before;
      request.max_tokens = options.max_tokens.value_or(std::max<std::int64_t>(room, 1));
      request.constraint = constraint;
      request.prediction = prediction;
      choice.stop = stop;
      choice.visible_specials = visible;
      if (i > 0) choice.prompt_owner = prompt_owner;
      choice.ticket = std::move(tickets[out.size()]);
      out.push_back(std::move(choice));
    }
  }
  return out;
}

void Service::set_head(AnswerJob& job, const char* id_prefix) const {
  job.head.id = id_prefix + random_hex(96);
  job.head.model = options_.model_name;
  job.head.created = std::time(nullptr);
  job.head.choices = static_cast<size_t>(job.options.n) * job.prompts.size();
  job.head.include_usage = job.options.include_usage;
  job.head.logprobs = job.options.logprobs.has_value();
}

Response Service::begin(const HttpRequest& request, AnswerJob job, const WireFormat& wire) {
  const AnswerOptions& options = job.options;
  const std::shared_ptr<const Caller> caller = caller_of(request);
  std::vector<ChoiceRequest> asked = choices(job, *caller);
  for (ChoiceRequest& choice : asked) {
    choice.request.breakpoints = job.map.breakpoints;
    choice.request.label = request.id;
  }
  auto generation = std::make_unique<Generation>(Generation::Context{engine_, model_.tokenizer, metrics_, live_,
                                                                     model_.engine.config().block_tokens, request.id},
                                                 std::move(asked));
  std::optional<CacheDiagnosis> diagnosis = diagnose(job, *caller);
  if (job.print) prints_.add(caller->id, job.head.id, std::move(*job.print));
  const AnswerReading reading = answer_reading(request, job);
  std::vector<AnswerReader> readers;
  for (size_t i = 0; !reading.plain() && i < generation->choices(); ++i) readers.emplace_back(reading);
  FinishedRecord record;
  record.request_id = request.id;
  record.answer_id = job.head.id;
  record.path = request.path;
  record.tenant = caller->id;
  record.created = std::time(nullptr);
  Response response;
  response.work = std::make_unique<AnswerWork>(
      std::move(generation), (options.stream ? wire.stream : wire.whole)(std::move(job.head)),
      AnswerWork::AnswerContext{metrics_, records_, model_.tokenizer, caller, std::move(record),
                                options.explain ? AnswerWork::Explain::kYes : AnswerWork::Explain::kNo,
                                std::move(readers), std::move(job.map.messages), reasoning_.openers,
                                options.show_reasoning, std::move(diagnosis)});
  response.body = options.stream ? Response::Body::kStreamed : Response::Body::kWhole;
  if (options.stream) {
    response.reply.content_type = wire.stream_type;
    response.reply.headers = {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}};
    response.heartbeat = wire.heartbeat;
  }
  return response;
}

void Service::on_pause(OnPreemption listener) {
  engine_.ask([listener = std::move(listener)](Engine& engine) {
    engine.on_preemption(listener);
    return 0;
  });
}

void Service::on_verdict(Canary::OnVerdict listener) {
  engine_.ask([this, listener = std::move(listener)](Engine&) {
    on_verdict_ = listener;
    return 0;
  });
}

EngineNumbers Service::engine_numbers() {
  EngineNumbers numbers = engine_.ask([this](Engine& engine) {
    EngineNumbers out;
    for (const auto& [policy, seen] : canary_.seen()) {
      out.canary.push_back(
          {policy, seen.requests, seen.sums.rows, seen.sums.mean_kl(), seen.sums.top_agreement(), seen.replaced_by});
    }
    out.running = engine.scheduler().running();
    out.waiting = engine.scheduler().waiting();
    out.preemptions = engine.scheduler().preemptions();
    const KvCache& cache = engine.cache();
    for (size_t g = 0; g < cache.groups(); ++g) {
      const BlockPool& pool = cache.pool(g);
      out.blocks += pool.size();
      out.held_blocks += pool.held();  // less what only pins hold, below
      out.cached_blocks += pool.available() - pool.free_blocks();
    }
    out.block_tokens = cache.block_tokens();
    out.queried_tokens = cache.stats().queried_tokens;
    out.hit_tokens = cache.stats().hit_tokens;
    out.evicted_blocks = cache.stats().evicted_blocks;
    out.block_lifetime = cache.stats().block_lifetime;
    out.block_idle = cache.stats().block_idle;
    out.block_reuse_gap = cache.stats().block_reuse_gap;
    out.scheduler = engine.scheduler().counts();
    out.held_blocks -= engine.pins().idle_blocks();
    out.pinned_blocks = engine.pins().blocks();
    out.speculation = engine.speculator().counts();
    out.swapped_bytes = static_cast<std::int64_t>(engine.swap().used());
    out.moved_pages = cache.stats().moved_pages;
    for (const auto& policy : engine.policies().all()) {
      out.policies.push_back({policy->text, cache.policy_stats(policy->id)});
    }
    return out;
  });
  numbers.tenants = tenant_numbers();
  return numbers;
}

}  // namespace kvasir
