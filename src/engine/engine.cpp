#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "engine/batch_builder.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

constexpr int kDefaultSequences = 4;  // of the longest context, when nobody says how much memory there is

std::vector<KvGroup> groups_of(const Model& model, const EngineConfig& config) {
  return kv_groups(model.config(), config.k_format, config.v_format);
}

EngineConfig completed(EngineConfig config, const Model& model) {
  const std::int64_t trained = model.config().context;
  if (config.block_tokens < 1 || config.block_tokens > 65536) {
    fail_usage(fmt::format("a block of {} tokens makes no sense", config.block_tokens), "--block-size",
               "use 1 to 65536");
  }
  if (config.context <= 0) config.context = trained;
  if (config.context > trained) {
    fail_usage(fmt::format("{} tokens are more than the {} the model was trained for", config.context, trained),
               "--ctx-size", fmt::format("use {} or less", trained));
  }
  const std::vector<KvGroup> groups = groups_of(model, config);
  if (config.kv_bytes == 0) {
    for (const KvGroup& group : groups) {
      const KvLayout layout = make_layout(group, config.block_tokens);
      config.kv_bytes += static_cast<std::uint64_t>(
          kDefaultSequences * blocks_for(config.context, config.block_tokens) * layout.block_bytes());
    }
    config.kv_bytes = std::min(config.kv_bytes, physical_memory() / 2);
  }
  if (blocks_in(config.kv_bytes, groups, config.block_tokens) < 1) {
    std::int64_t needed = 0;
    for (const KvGroup& group : groups) needed += make_layout(group, config.block_tokens).block_bytes();
    fail_usage(fmt::format("{} do not hold one block of {} tokens, which takes {}", format_bytes(config.kv_bytes),
                           config.block_tokens, format_bytes(static_cast<std::uint64_t>(needed))),
               "--kv-memory", "give more memory, or a smaller --block-size");
  }
  SchedulerConfig& scheduler = config.scheduler;
  scheduler.max_batch_tokens = std::clamp(scheduler.max_batch_tokens, 1, model.max_rows());
  scheduler.max_sequences = std::max(scheduler.max_sequences, 1);
  return config;
}

std::vector<KvStorage::GroupSpec> storage_groups(const Model& model, const EngineConfig& config) {
  const std::vector<KvGroup> groups = groups_of(model, config);
  const std::int64_t blocks = blocks_in(config.kv_bytes, groups, config.block_tokens);
  std::vector<KvStorage::GroupSpec> out;
  for (const KvGroup& group : groups) out.push_back({group, blocks});
  return out;
}

std::vector<BlockId> shuffled(std::vector<BlockId> order, std::uint64_t seed) {
  for (size_t i = order.size(); i > 1 && seed != 0; --i) std::swap(order[i - 1], order[mix(seed, i, 0) % i]);
  return order;
}

CacheConfig cache_config(const Model& model, const Backend& backend, const EngineConfig& config) {
  CacheConfig out;
  out.block_tokens = config.block_tokens;
  out.eviction = config.eviction;
  out.reuse = config.mode == EngineConfig::Mode::kRecompute ? CacheConfig::Reuse::kOff : config.reuse;
  const std::vector<KvGroup> groups = groups_of(model, config);
  out.policy_key = policy_key(model, backend, groups, config.block_tokens);
  const std::int64_t blocks = blocks_in(config.kv_bytes, groups, config.block_tokens);
  for (const KvGroup& group : groups) {
    out.groups.push_back({group.retention, shuffled(blocks_in_order(blocks), config.shuffle_blocks),
                          make_layout(group, config.block_tokens).block_bytes()});
  }
  // A token multiplies with every weight once, and its queries with every cached token.
  const ModelConfig& shape = model.config();
  out.recompute.constant = parameter_count(shape) / 1024 + 1;
  out.recompute.per_position = 2 * static_cast<std::uint64_t>(shape.layers) *
                                   static_cast<std::uint64_t>(shape.heads) *
                                   static_cast<std::uint64_t>(shape.head_dim) / 1024 +
                               1;
  return out;
}

}  // namespace

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kFailed:
      return "failed";
    case FinishReason::kNone:
      break;
  }
  return "none";
}

std::int64_t blocks_in(std::uint64_t bytes, std::span<const KvGroup> groups, int block_tokens) {
  std::int64_t all = 0;
  for (const KvGroup& group : groups) all += make_layout(group, block_tokens).block_bytes();
  const std::uint64_t blocks = bytes / static_cast<std::uint64_t>(all);
  return static_cast<std::int64_t>(std::min<std::uint64_t>(blocks, std::uint64_t{1} << 30));
}

Key256 policy_key(const Model& model, const Backend& backend, std::span<const KvGroup> groups, int block_tokens) {
  std::string policy = fmt::format("{} {}", backend.kernel_version(), block_tokens);
  for (const KvGroup& group : groups) {
    policy += fmt::format(" [{}] {} {} {} {}", fmt::join(group.layers, ","), format_name(group.k_format),
                          format_name(group.v_format), group.retention.window, group.retention.sinks);
  }
  const std::array<std::string_view, 1> parts{policy};
  return keyed_hash(model.fingerprint(), parts);
}

Engine::Engine(Backend& backend, Model& model, EngineConfig config)
    : backend_(backend),
      model_(model),
      config_(completed(std::move(config), model)),
      storage_(backend, storage_groups(model, config_), config_.block_tokens),
      cache_(cache_config(model, backend, config_)),
      scheduler_(config_.scheduler) {}

void Engine::check(const Request& request) const {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  if (prompt == 0) fail_input("the prompt is empty", "request", "give at least one token");
  if (prompt >= config_.context) {
    throw Error(
        Error::Kind::kCapacity,
        {fmt::format("the prompt has {} tokens, and the context holds {} with the answer", prompt, config_.context),
         "request", "shorten the prompt or raise --ctx-size"});
  }
  for (const TokenId token : request.prompt) {
    if (token < 0 || token >= model_.config().vocab) {
      fail_input(fmt::format("token {} is not in the vocabulary of {}", token, model_.config().vocab), "request");
    }
  }
  if (request.max_tokens < 1)
    fail_input(fmt::format("{} tokens were asked for", request.max_tokens), "request", "ask for at least one");
  check_sampling(request.sampling, "request");
  if (request.logprobs && (*request.logprobs < 0 || *request.logprobs > model_.config().vocab)) {
    fail_input(fmt::format("{} likeliest tokens were asked for", *request.logprobs), "request",
               fmt::format("use 0 to {}", model_.config().vocab));
  }
  const std::int64_t longest = std::min(prompt + request.max_tokens, config_.context);
  if (!cache_.fits_alone(longest - 1)) {  // the last token of an answer is never fed back
    throw Error(Error::Kind::kCapacity,
                {fmt::format("{} tokens of prompt and answer need more blocks than the cache has ({} of {} tokens)",
                             longest, cache_.pool(0).size(), config_.block_tokens),
                 "request", "raise --kv-memory, or ask for fewer tokens"});
  }
}

RequestId Engine::submit(Request request, OnUpdate on_update) {
  check(request);
  const RequestId id = new_id();
  start(id, std::move(request), std::move(on_update));
  return id;
}

void Engine::start(RequestId id, Request request, OnUpdate on_update) {
  scheduler_.add(std::make_unique<Sequence>(id, std::move(request), std::move(on_update)));
}

void Engine::cancel_all() {
  for (const RequestId id : scheduler_.ids()) cancel(id);
}

RequestId Engine::fork(RequestId id, std::uint64_t seed, OnUpdate on_update) {
  Sequence* from = scheduler_.find(id);
  CHECK(from != nullptr);
  Request request = from->request;
  request.sampling.seed = seed;
  auto copy = std::make_unique<Sequence>(new_id(), std::move(request), std::move(on_update));
  for (size_t i = from->request.prompt.size(); i < from->tokens.size(); ++i) {
    copy->tokens.push_back(from->tokens[i]);
    copy->sampler.accept(from->tokens[i]);
  }
  copy->record = from->record;
  const RequestId copy_id = copy->id;
  if (from->lease.valid()) {
    copy->lease = cache_.fork(from->lease);
    scheduler_.add_running(std::move(copy));
  } else {
    scheduler_.add(std::move(copy));
  }
  return copy_id;
}

void Engine::cancel(RequestId id) {
  Sequence* sequence = scheduler_.find(id);
  if (sequence != nullptr && sequence->finish == FinishReason::kNone) sequence->finish = FinishReason::kCancelled;
}

void Engine::run() {
  while (!idle()) step();
}

void Engine::step() {
  finish_done();
  const std::vector<PlannedRows> plan = scheduler_.plan(cache_);
  if (plan.empty()) return;
  for (const BlockCopy& copy : cache_.take_copies()) storage_.copy_block(copy.group, copy.from, copy.to);
  build_batch(plan, cache_.groups(), batch_);
  const Matrix logits = model_.forward(batch_, storage_);
  const auto vocab = static_cast<size_t>(logits.cols);
  logits_.resize(vocab * static_cast<size_t>(logits.rows));
  backend_.download(std::as_writable_bytes(std::span(logits_)), reinterpret_cast<const std::byte*>(logits.data));
  size_t row = 0;
  for (const PlannedRows& planned : plan) {
    const bool caught_up = planned.rows == planned.sequence->pending();
    advance(*planned.sequence, planned.rows);
    if (!caught_up) continue;
    try {
      choose(*planned.sequence, std::span(logits_).subspan(vocab * row++, vocab));
    } catch (const Error& error) {  // one request's trouble is no other's
      planned.sequence->finish = FinishReason::kFailed;
      planned.sequence->record.failure = error.what();
    }
  }
  finish_done();
}

// The rows are computed: they belong to the cache now.
void Engine::advance(Sequence& sequence, int rows) {
  const auto done = static_cast<size_t>(sequence.lease.length());
  cache_.commit(sequence.lease, std::span(sequence.tokens).subspan(done, static_cast<size_t>(rows)));
  sequence.record.computed_tokens += rows;
  ++sequence.record.steps;
}

// The next token, and its probabilities where they are asked for: of the model's own logits, before anything else.
TokenId Engine::draw(Sequence& sequence, std::span<float> logits, Position position) {
  const Request& request = sequence.request;
  std::optional<LogprobTable> table;
  std::vector<float> own;
  if (request.logprobs) {
    check_logits(logits);
    table.emplace(logits, *request.logprobs);
    own.assign(logits.begin(), logits.end());
  }
  // A form that is complete must end: it goes before the wish for more tokens.
  if (sequence.answered() < request.min_tokens && !request.constraint) {
    for (const TokenId stop : request.stop_tokens) {
      if (stop >= 0 && static_cast<size_t>(stop) < logits.size())
        logits[static_cast<size_t>(stop)] = -std::numeric_limits<float>::infinity();
    }
  }
  const TokenId token = sequence.sampler.sample(logits, position);
  if (table) sequence.logprobs = table->of(own[static_cast<size_t>(token)]);
  return token;
}

void Engine::choose(Sequence& sequence, std::span<float> logits) {
  if (sequence.finish != FinishReason::kNone) return;  // cancelled while it ran
  const auto position = static_cast<Position>(sequence.tokens.size());
  if (observer_) observer_(sequence.id, position, logits);
  const TokenId token = draw(sequence, logits, position);
  if (std::ranges::find(sequence.request.stop_tokens, token) != sequence.request.stop_tokens.end()) {
    sequence.finish = FinishReason::kStop;
    return;
  }
  sequence.sampler.accept(token);
  if (sequence.sampler.constraint() != nullptr && sequence.sampler.constraint()->ended()) {
    sequence.finish = FinishReason::kStop;  // nothing may follow, whatever the request says of stop tokens
    return;
  }
  sequence.tokens.push_back(token);
  const bool full = static_cast<std::int64_t>(sequence.tokens.size()) >= config_.context;
  if (full || sequence.answered() >= sequence.request.max_tokens) sequence.finish = FinishReason::kLength;
  if (config_.mode == EngineConfig::Mode::kRecompute) cache_.truncate(sequence.lease, 0);
  if (sequence.finish == FinishReason::kNone) tell(sequence, token);
}

// The last token travels with the reason why it is the last.
void Engine::finish_done() {
  for (const std::unique_ptr<Sequence>& sequence : scheduler_.take_finished()) {
    tell(*sequence, sequence->finish == FinishReason::kLength ? sequence->tokens.back() : -1);
  }
}

void Engine::tell(const Sequence& sequence, TokenId token) const {
  const TokenLogprobs* probabilities = token >= 0 && sequence.logprobs ? &*sequence.logprobs : nullptr;
  if (sequence.on_update) sequence.on_update({sequence.id, token, sequence.finish, probabilities, &sequence.record});
}

}  // namespace kvasir
