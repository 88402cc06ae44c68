#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "api/loaded_model.h"
#include "base/bytes.h"
#include "base/error.h"
#include "engine/engine.h"
#include "kvasir/kvasir.h"
#include "layout/codec.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace kvasir {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

SamplingParams sampling_of(const GenerateOptions& options, const SamplingOverrides& model) {
  SamplingParams params = resolve_sampling(
      {}, model, {options.temperature, options.top_k, options.top_p, options.min_p, options.repetition_penalty});
  params.frequency_penalty = options.frequency_penalty;
  params.presence_penalty = options.presence_penalty;
  params.logit_bias = options.logit_bias;
  params.seed = options.seed;
  return params;
}

}  // namespace

struct Llm::Impl : LoadedModel {
  using LoadedModel::LoadedModel;

  // One answer while it grows.
  struct Growing {
    Growing(const Tokenizer& tokenizer, const OnText& listener) : detokenizer(tokenizer), on_text(listener) {}

    Answer answer;
    Detokenizer detokenizer;
    const OnText& on_text;
    bool deaf = false;  // its listener threw
    Clock::time_point start = Clock::now();
  };

  RequestId start(std::vector<TokenId> tokens, const GenerateOptions& options, Growing& growing) {
    Request request;
    request.sampling = sampling_of(options, sampling);
    request.max_tokens = options.max_tokens;
    if (!options.kv.empty()) {
      RequestedKv asked = parse_requested_kv(options.kv, "kv");
      request.kv = std::move(asked.policy);
      request.state_budget = asked.state_budget;
    }
    if (!options.ignore_eos) request.stop_tokens = model->config().eos;
    growing.answer.prompt_tokens = static_cast<std::int64_t>(tokens.size());
    request.prompt = std::move(tokens);
    return engine.submit(std::move(request), [this, &growing](const Update& update) { hear(update, growing); });
  }

  void hear(const Update& update, Growing& growing) {
    Answer& answer = growing.answer;
    if (answer.tokens.empty()) answer.first_token_seconds = seconds_since(growing.start);
    std::string piece;
    if (update.token >= 0) {
      answer.tokens.push_back(update.token);
      piece = growing.detokenizer.push(update.token);
    }
    if (update.finish != FinishReason::kNone) {
      piece += growing.detokenizer.finish();
      answer.finish = name_of(update.finish);
      answer.failure = update.record->failure;
      answer.total_seconds = seconds_since(growing.start);
      const ReuseReport reuse = update.record->reuse.of_prompt();
      answer.reused_tokens = reuse.reused_tokens;
      answer.reuse = describe(reuse);
      answer.computed_tokens = update.record->computed_tokens;
      for (const DraftRecord& one : update.record->drafts) {
        answer.draft_tokens += one.proposed;
        answer.accepted_tokens += one.accepted;
      }
    }
    answer.text += piece;
    if (piece.empty() || !growing.on_text || growing.deaf) return;
    if (growing.on_text(piece) == Next::kStop) engine.cancel(update.id);
  }

  // Of all of them, in as few batches as they fit into.
  std::vector<std::vector<float>> made_of(std::span<const Embedder::Text> texts) {
    for (const Embedder::Text& text : texts) embedder.check(text);
    std::vector<std::vector<float>> out;
    while (out.size() < texts.size()) {
      const std::span<const Embedder::Text> rest = texts.subspan(out.size());
      for (std::vector<float>& one : embedder.run(rest.first(embedder.fit(rest)))) out.push_back(std::move(one));
    }
    return out;
  }

  Answer run_one(std::vector<TokenId> tokens, const GenerateOptions& options, const OnText& on_text) {
    Growing growing(tokenizer, on_text);
    start(std::move(tokens), options, growing);
    try {
      engine.run();
    } catch (...) {  // the caller's listener threw: the request leaves before what it reports to does
      growing.deaf = true;
      engine.cancel_all();
      engine.run();
      throw;
    }
    if (!growing.answer.failure.empty()) fail_input(growing.answer.failure);
    return std::move(growing.answer);
  }
};

Llm::Llm(const LlmOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Llm::~Llm() = default;
Llm::Llm(Llm&&) noexcept = default;
Llm& Llm::operator=(Llm&&) noexcept = default;

GenerateOptions Llm::resolved(GenerateOptions options) const {
  const SamplingParams params = sampling_of(options, impl_->sampling);
  options.temperature = params.temperature;
  options.top_k = params.top_k;
  options.top_p = params.top_p;
  options.min_p = params.min_p;
  options.repetition_penalty = params.repetition_penalty;
  return options;
}

std::vector<std::int32_t> Llm::tokenize(std::string_view text) const {
  return impl_->tokenizer.encode_document(text, Tokenizer::Specials::kParse);
}

Answer Llm::generate(std::string_view prompt, const GenerateOptions& options, const OnText& on_text) {
  if (prompt.empty()) fail_input("the prompt is empty", "prompt", "give some text");
  return impl_->run_one(tokenize(prompt), options, on_text);
}

Answer Llm::generate_tokens(std::span<const std::int32_t> tokens, const GenerateOptions& options,
                            const OnText& on_text) {
  return impl_->run_one({tokens.begin(), tokens.end()}, options, on_text);
}

Answer Llm::chat(std::span<const Message> messages, const GenerateOptions& options, const OnText& on_text) {
  if (!can_chat())
    fail_input("the model has no chat template", "chat", "use generate(), or a model that was tuned for chat");
  if (messages.empty()) fail_input("there are no messages", "chat", "give at least one");
  std::vector<ChatMessage> list;
  list.reserve(messages.size());
  for (const Message& message : messages) list.push_back({message.role, message.content});
  RenderOptions render;
  render.bos_token = impl_->tokenizer.bos_token().value_or("");
  render.eos_token = impl_->tokenizer.eos_token().value_or("");
  const std::vector<Piece> pieces = impl_->chat->render(list, render);
  return impl_->run_one(encode_chat(impl_->tokenizer, pieces), options, on_text);
}

std::vector<Answer> Llm::generate_all(std::span<const std::string> prompts, const GenerateOptions& options) {
  const OnText nobody;
  std::vector<std::unique_ptr<Impl::Growing>> growing;
  std::vector<RequestId> started;
  try {
    for (const std::string& prompt : prompts) {
      if (prompt.empty()) fail_input("the prompt is empty", "prompt", "give some text");
      growing.push_back(std::make_unique<Impl::Growing>(impl_->tokenizer, nobody));
      started.push_back(impl_->start(tokenize(prompt), options, *growing.back()));
    }
  } catch (...) {
    for (const RequestId id : started) impl_->engine.cancel(id);
    impl_->engine.run();  // the others leave before what they report to does
    throw;
  }
  impl_->engine.run();
  std::vector<Answer> answers;
  answers.reserve(growing.size());
  for (const auto& one : growing) answers.push_back(std::move(one->answer));
  return answers;
}

std::vector<std::vector<float>> Llm::embed(std::span<const std::string> texts) {
  std::vector<std::vector<TokenId>> tokens;
  std::vector<Embedder::Text> views;
  for (const std::string& text : texts) {
    tokens.push_back(impl_->tokenizer.encode_document(text, Tokenizer::Specials::kPlain));
  }
  for (const std::vector<TokenId>& one : tokens) views.push_back({one, {}, &impl_->vectors});
  return impl_->made_of(views);
}

std::vector<float> Llm::rerank(std::string_view query, std::span<const std::string> documents) {
  if (!impl_->reranker) fail_usage(kNoReranker, "rerank", "use a reranker, such as bge-reranker or Qwen3-Reranker");
  std::vector<Tokenizer::Pair> pairs;
  std::vector<Embedder::Text> views;
  for (const std::string& document : documents) {
    pairs.push_back(impl_->reranker->prompt.tokens({query, document}, {}));
  }
  for (const Tokenizer::Pair& pair : pairs) views.push_back({pair.tokens, pair.types, &impl_->reranker->head});
  std::vector<float> scores;
  for (const std::vector<float>& one : impl_->made_of(views)) scores.push_back(one.front());
  return scores;
}

bool Llm::can_chat() const { return impl_->chat.has_value(); }

ModelInfo Llm::model() const {
  const ModelSpec& config = impl_->model->config();
  ModelInfo info;
  const auto attends = [](const LayerSpec& layer) { return !layer.attention.none(); };
  const AttentionSpec& attention = std::ranges::find_if(config.layers, attends)->attention;
  info.description =
      fmt::format("{}, {} layers, {} wide, {} heads over {} KV heads of {}", config.family_name(),
                  config.layer_count(), config.hidden, attention.heads, attention.kv.heads, attention.kv.k_dim);
  info.backend = impl_->backend->description();
  info.sampling = to_text(impl_->sampling);
  info.parameters = parameter_count(config);
  info.weight_bytes = impl_->model->weight_bytes();
  info.context = impl_->engine.context();
  for (const KvGroup& group : kv_groups(config, impl_->engine.config().kv))
    info.kv_bytes_per_token += bytes_per_token(group);
  return info;
}

CacheInfo Llm::cache() const {
  const KvCache& cache = impl_->engine.cache();
  CacheInfo info;
  info.block_tokens = cache.block_tokens();
  for (size_t g = 0; g < cache.groups(); ++g) {
    const BlockPool& pool = cache.pool(g);
    info.blocks += pool.size();
    info.free_blocks += pool.free_blocks();
    info.cached_blocks += pool.available() - pool.free_blocks();
  }
  for (const size_t g : cache.groups_of(0)) info.block_bytes += impl_->engine.storage().block_bytes(g);
  info.queried_tokens = cache.stats().queried_tokens;
  info.hit_tokens = cache.stats().hit_tokens;
  info.evicted_blocks = cache.stats().evicted_blocks;
  return info;
}

}  // namespace kvasir
