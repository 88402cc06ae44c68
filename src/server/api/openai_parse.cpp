#include "server/api/openai_parse.h"

#include <fmt/format.h>

#include <array>

#include "server/api/api_error.h"
#include "server/api/known_fields.h"
#include "server/api/parse_common.h"
#include "server/api/reasoning_parse.h"
#include "server/api/speculative_parse.h"
#include "server/api/tool_parse.h"

namespace kvasir {
namespace {

constexpr Fields::Range kTokenCount{1, 1 << 30};
constexpr size_t kMostStops = 4;
constexpr size_t kMostAnswers = 128;  // of one request: n, times the prompts

constexpr std::array<Unsupported, 10> kOpenAiLater{{
    {"prompt_logprobs", "only the answer's tokens have probabilities here"},
    {"functions", "use tools"},
    {"function_call", "use tool_choice"},
    {"audio", "this model writes text"},
    {"modalities", "this model writes text"},
    {"guided_regex", "use a JSON Schema with a pattern"},
    {"guided_choice", "use a JSON Schema with an enum"},
    {"guided_grammar", "use a JSON Schema"},
    {"structured_outputs", "use response_format"},
    {"grammar", "use a JSON Schema"},
}};

ResponseFormat read_named_schema(const Fields& format) {
  format.required("json_schema");
  const Fields named = *format.object("json_schema");
  refuse_unknown_fields(named, PartKind::kNamedSchema);
  named.boolean("strict");  // a schema is always followed: only the type is checked
  const Json* schema = named.find("schema");
  if (schema == nullptr) return {ResponseFormat::Kind::kJsonObject, {}, "response_format"};
  return schema_format(*schema, named.path("schema"));
}

// OpenAI's response_format; guided_json as vLLM, json_schema as llama-server have it.
ResponseFormat read_response_format(const Fields& fields) {
  ResponseFormat format = read_openai_format(fields, "response_format", read_named_schema);
  for (const char* name : {"guided_json", "json_schema"}) {
    const Json* schema = fields.find(name);
    if (schema == nullptr) continue;
    if (format.kind != ResponseFormat::Kind::kText)
      bad_param(name, fmt::format("{} and {} both say what the answer must be", format.param, name));
    format = schema_format(*schema, name);
  }
  return format;
}

void read_common(const Fields& fields, AnswerOptions& options) {
  options.sampling.temperature = 1.0F;
  fields.text("model");  // any name is served by the one model; only its type is checked
  read_sampling(fields, options);
  options.space = read_cache_space(fields);
  options.compare_with = read_comparison(fields);
  options.kv = read_kv(fields);
  options.speculative = read_speculative(fields);
  options.stop = read_stops(fields, "stop", kMostStops);
  options.format = read_response_format(fields);
  if (const auto n = fields.integer("n", {1, kMostAnswers})) options.n = static_cast<int>(*n);
  options.include_usage = read_stream_options(fields, options.stream);
}

// Modalities that ask for nothing but text ask for nothing.
void refuse_later_openai(const Fields& fields) {
  const Json* modalities = fields.find("modalities");
  const bool text_only = modalities != nullptr && *modalities == Json::array({"text"});
  for (const Unsupported& one : kOpenAiLater) {
    if (text_only && std::string_view(one.name) == "modalities") continue;
    refuse(fields, std::span(&one, 1));
  }
}

std::vector<Prompt> read_prompts(const Json& json) {
  if (json.is_string()) return {json.get<std::string>()};
  if (!json.is_array() || json.empty())
    bad_param("prompt", "prompt must be a string, an array of strings, or an array of token ids");
  if (json.front().is_number()) return {token_ids(json, "prompt")};
  if (json.size() > kMostAnswers)
    bad_param("prompt", fmt::format("prompt has {} entries; use at most {}", json.size(), kMostAnswers));
  std::vector<Prompt> prompts;
  for (const Json& item : json) {
    if (item.is_string()) {
      prompts.emplace_back(item.get<std::string>());
    } else {
      prompts.emplace_back(token_ids(item, "prompt"));
    }
  }
  return prompts;
}

}  // namespace

ChatRequest parse_openai_chat(const Json& body) {
  const Fields fields(body);
  refuse_later_openai(fields);
  refuse_unknown_fields(fields, RequestKind::kChat);
  ChatRequest request;
  request.messages = read_messages(fields);
  read_common(fields, request.options);
  request.options.max_tokens = fields.integer("max_completion_tokens", kTokenCount);
  const auto old_name = fields.integer("max_tokens", kTokenCount);
  if (!request.options.max_tokens) request.options.max_tokens = old_name;
  check_lengths(request.options, "max_completion_tokens");
  request.options.logprobs = read_chat_logprobs(fields);
  request.options.toolbox = read_openai_tools(fields);
  request.turn = read_turn(fields, request.messages);
  check_toolbox(request);
  request.variables = read_template_variables(fields);
  read_openai_reasoning(fields, request);
  request.options.prediction = read_prediction(fields);
  return request;
}

CompletionRequest parse_openai_completion(const Json& body) {
  const Fields fields(body);
  refuse_later_openai(fields);
  refuse_unknown_fields(fields, RequestKind::kCompletion);
  static constexpr std::array<Unsupported, 1> kSuffix{{{"suffix", "this model cannot fill in the middle"}}};
  refuse(fields, kSuffix);
  CompletionRequest request;
  request.prompts = read_prompts(fields.required("prompt"));
  read_common(fields, request.options);
  const size_t answers = request.prompts.size() * static_cast<size_t>(request.options.n);
  if (answers > kMostAnswers) {
    bad_param("n", fmt::format("{} prompts with n = {} are {} answers; ask for at most {} at once",
                               request.prompts.size(), request.options.n, answers, kMostAnswers));
  }
  if (const auto best = fields.integer("best_of", {1, kMostAnswers}); best && *best != request.options.n) {
    not_supported("best_of", "best_of is not supported yet: it needs the probabilities of the answers");
  }
  request.options.max_tokens = fields.integer("max_tokens", kTokenCount).value_or(16);
  check_lengths(request.options, "max_tokens");
  request.echo = fields.boolean("echo").value_or(false);
  if (const auto top = fields.integer("logprobs", {0, 5})) request.options.logprobs = static_cast<int>(*top);
  if (request.echo && request.options.logprobs)
    not_supported("echo",
                  "echo together with logprobs is not supported: the prompt's tokens have no probabilities here");
  return request;
}

}  // namespace kvasir
