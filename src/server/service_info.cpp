// The routes that tell: the model, the cache, the counters, and text as tokens.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "server/api/api_error.h"
#include "server/api/openai_parse.h"
#include "server/api/parse_common.h"
#include "server/service.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

constexpr std::string_view kVersion = KVASIR_VERSION;

// A token's text, or its bytes where they are not text by themselves.
OrderedJson piece_of(std::string_view bytes) {
  if (valid_run(bytes, 0) == bytes.size()) return std::string(bytes);
  OrderedJson out = OrderedJson::array();
  for (const char c : bytes) out.push_back(static_cast<unsigned char>(c));
  return out;
}

OrderedJson allowed_policies(const EngineConfig& config) {
  if (config.others == EngineConfig::OtherPolicies::kAny) return "any";
  OrderedJson out = OrderedJson::array({to_text(config.kv)});
  for (const KvPolicy& also : config.kv_also) out.push_back(to_text(also));
  return out;
}

// In llama-server's words: what OpenAI's and Anthropic's requests are drawn with where they say nothing.
OrderedJson draw_params(const SamplingParams& params) {
  return {{"temperature", as_written(params.temperature)},
          {"top_k", params.top_k},
          {"top_p", as_written(params.top_p)},
          {"min_p", as_written(params.min_p)},
          {"repeat_penalty", as_written(params.repetition_penalty)}};
}

}  // namespace

Response Service::health(const HttpRequest&) { return json_response({{"status", "ok"}}); }

OrderedJson Service::model_card() const {
  const ModelSpec& config = model_.model->config();
  return {{"id", options_.model_name},
          {"object", "model"},
          {"created", started_},
          {"owned_by", "kvasir"},
          {"meta",
           {{"n_vocab", config.vocab},
            {"n_ctx_train", config.context},
            {"n_params", parameter_count(config)},
            {"size", model_.model->weight_bytes()}}}};
}

Response Service::models(const HttpRequest&) {
  return json_response({{"object", "list"}, {"data", OrderedJson::array({model_card()})}});
}

Response Service::model_by_name(const HttpRequest& request) {
  const std::string name = request.path.substr(std::string_view("/v1/models/").size());
  if (name != options_.model_name) {
    throw ApiError({.status = 404, .type = "not_found_error", .param = "model", .code = "model_not_found"},
                   fmt::format("there is no model '{}' here; this is '{}'", excerpt(name, 100), options_.model_name));
  }
  return json_response(model_card());
}

Response Service::props(const HttpRequest& request) {
  const EngineConfig& config = model_.engine.config();
  return json_response({{"default_generation_settings",
                         {{"n_ctx", model_.engine.longest_of(caller_of(request)->id)},
                          {"params", draw_params(resolve_sampling({.temperature = 1.0F}, model_.sampling, {}))}}},
                        {"total_slots", config.scheduler.max_sequences},
                        {"model_path", options_.model_name},
                        {"chat_template", model_.tokenizer.chat_template().value_or("")},
                        {"modalities", {{"vision", false}, {"audio", false}}},
                        {"build_info", fmt::format("kvasir {}", kVersion)},
                        {"kv_cache",
                         {{"block_tokens", config.block_tokens},
                          {"blocks", model_.engine.cache_blocks()},
                          {"bytes", config.kv_bytes},
                          {"policy", to_text(config.kv)},
                          {"policies_allowed", allowed_policies(config)},
                          {"eviction", config.eviction}}}});
}

// Numbers of others tell what they do and when: with keys, only an operator's shows them.
Response Service::metrics_page(const HttpRequest& request) {
  Response response;
  response.reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  const bool all =
      options_.metrics_for == ServiceOptions::MetricsFor::kAnyone || caller_of(request)->sees == KeyEntry::Sees::kAll;
  if (all) {
    response.reply.body = metrics_.render(engine_numbers());
    return response;
  }
  const std::shared_ptr<const Caller> caller = caller_of(request);
  const TenantNumbers own = engine_.ask([caller](Engine& engine) {
    const auto texts = static_cast<std::int64_t>(engine.speculator().text_bytes(caller->id));
    return TenantNumbers{caller->name, engine.cache().tenant_stats(caller->id), texts};
  });
  response.reply.body = metrics_.render_own(own);
  return response;
}

Response Service::request_record(const HttpRequest& request) {
  const std::string id = request.path.substr(std::string_view("/kvasir/requests/").size());
  std::optional<std::string> record = records_.find(caller_of(request)->id, id);
  if (!record) {
    throw ApiError({.status = 404, .type = "not_found_error", .code = "request_not_found"},
                   fmt::format("there is no finished request '{}'; the last {} are kept", excerpt(id, 100),
                               options_.kept_records.records));
  }
  Response response;
  response.reply.body = std::move(*record);
  return response;
}

Response Service::tokenize(const HttpRequest& request) {
  const Json body = parse_json(request.body);
  const Fields fields(body);
  const std::string content = fields.required_text("content");
  check_text(content.size(), "content");
  const auto specials =
      fields.boolean("parse_special").value_or(true) ? Tokenizer::Specials::kParse : Tokenizer::Specials::kPlain;
  const Tokenizer& tokenizer = model_.tokenizer;
  const Tokens tokens = fields.boolean("add_special").value_or(false) ? tokenizer.encode_document(content, specials)
                                                                      : tokenizer.encode(content, specials);
  if (!fields.boolean("with_pieces").value_or(false)) return json_response({{"tokens", tokens}});
  check_tokens(tokens.size(), "content");
  OrderedJson pieces = OrderedJson::array();
  for (const TokenId token : tokens)
    pieces.push_back({{"id", token}, {"piece", piece_of(tokenizer.bytes_of(token))}});
  return json_response({{"tokens", std::move(pieces)}});
}

Response Service::detokenize_tokens(const HttpRequest& request) {
  const Json body = parse_json(request.body);
  const Tokens tokens = token_ids(Fields(body).required("tokens"), "tokens");
  check_tokens(tokens.size(), "tokens");
  return json_response({{"content", detokenize(model_.tokenizer, tokens, Tokenizer::SkipSpecials::kKeep)}});
}

Response Service::apply_template(const HttpRequest& request) {
  std::string prompt = text_of(render(parse_openai_chat(parse_json(request.body))));
  check_text(prompt.size(), "messages");
  return json_response({{"prompt", std::move(prompt)}});
}

OrderedJson Service::ollama_card() const {
  const ModelSpec& config = model_.model->config();
  const std::string architecture(config.family_name());
  return {{"name", options_.model_name},
          {"model", options_.model_name},
          {"modified_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(started_))},
          {"size", model_.model->weight_bytes()},
          {"digest", model_.model->fingerprint().hex()},
          {"details",
           {{"format", "safetensors"},
            {"family", architecture},
            {"families", OrderedJson::array({architecture})},
            {"parameter_size", fmt::format("{:.1f}M", static_cast<double>(parameter_count(config)) / 1e6)},
            {"quantization_level", "none"}}}};
}

Response Service::ollama_tags(const HttpRequest&) {
  return json_response({{"models", OrderedJson::array({ollama_card()})}});
}

// The one model is loaded as long as the server runs.
Response Service::ollama_ps(const HttpRequest& request) {
  OrderedJson card = ollama_card();
  card.erase("modified_at");
  card["expires_at"] = "9999-12-31T23:59:59Z";
  card["size_vram"] = 0;
  card["context_length"] = model_.engine.longest_of(caller_of(request)->id);
  return json_response({{"models", OrderedJson::array({std::move(card)})}});
}

Response Service::ollama_show(const HttpRequest& request) {
  const Json body = parse_json(request.body);
  const Fields fields(body);
  for (const char* name : {"model", "name"}) fields.text(name);  // any is served by the one model
  const OrderedJson card = ollama_card();
  const ModelSpec& config = model_.model->config();
  const std::string architecture(config.family_name());
  OrderedJson capabilities = OrderedJson::array();
  if (config.generates()) capabilities.push_back("completion");
  if (model_.chat) capabilities.push_back("tools");
  if (reasoning_.format != nullptr) capabilities.push_back("thinking");
  capabilities.push_back("embedding");
  return json_response({{"modelfile", ""},
                        {"parameters", ""},
                        {"template", model_.tokenizer.chat_template().value_or("")},
                        {"details", card["details"]},
                        {"model_info",
                         {{"general.architecture", architecture},
                          {"general.parameter_count", parameter_count(config)},
                          {architecture + ".context_length", config.context},
                          {architecture + ".vocab_size", config.vocab}}},
                        {"capabilities", std::move(capabilities)},
                        {"modified_at", card["modified_at"]}});
}

// A request without a prompt wants the model loaded, or with keep_alive 0 gone; it stays as it is.
Response Service::ollama_load(OllamaKind kind, const Json& body) const {
  const auto keep = body.find("keep_alive");
  const bool unload = keep != body.end() && (*keep == 0 || *keep == "0");
  OrderedJson out{{"model", options_.model_name},
                  {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))}};
  if (kind == OllamaKind::kChat) {
    out["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    out["response"] = "";
  }
  out["done"] = true;
  out["done_reason"] = unload ? "unload" : "load";
  return json_response(out);
}

Response Service::ollama_version(const HttpRequest&) { return json_response({{"version", kVersion}}); }

}  // namespace kvasir
