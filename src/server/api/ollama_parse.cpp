#include "server/api/ollama_parse.h"

#include <array>

#include "server/api/api_error.h"
#include "server/api/known_fields.h"
#include "server/api/parse_common.h"
#include "server/api/reasoning_parse.h"
#include "server/api/speculative_parse.h"
#include "server/api/tool_parse.h"

namespace kvasir {
namespace {

constexpr size_t kMostStopTexts = 64;

ResponseFormat read_format(const Fields& fields) {
  const Json* format = fields.find("format");
  if (format == nullptr || *format == "") return {};
  if (*format == "json") return {ResponseFormat::Kind::kJsonObject, {}, "format"};
  if (!format->is_object()) bad_param("format", "format must be \"json\" or a JSON Schema");
  return schema_format(*format, "format");
}

AnswerOptions read_options(const Fields& fields, RequestKind kind) {
  static constexpr std::array<Unsupported, 2> kLater{
      {{"suffix", "this model cannot fill in the middle"}, {"images", "this model reads text"}}};
  refuse(fields, kLater);
  refuse_unknown_fields(fields, kind);
  AnswerOptions options;
  options.sampling.temperature = 0.8F;
  options.sampling.top_k = 40;
  options.sampling.top_p = 0.9F;
  options.stream = fields.boolean("stream").value_or(true);
  options.explain = fields.boolean("explain").value_or(false);
  options.logprobs = read_chat_logprobs(fields);
  options.format = read_format(fields);
  options.space = read_cache_space(fields);
  options.kv = read_kv(fields);
  options.speculative = read_speculative(fields);
  const std::optional<Fields> inner = fields.object("options");
  if (!inner) return options;
  refuse_unknown_options(*inner);
  const AnswerOptions outer = options;
  read_sampling(*inner, options);
  options.stream = outer.stream;
  options.explain = outer.explain;
  if (const auto penalty = inner->number("repeat_penalty", {0.01, 100})) {
    options.named.repetition_penalty = static_cast<float>(*penalty);
  }
  // 0 penalizes nothing, -1 the whole text; here it is always the whole.
  const std::int64_t last = inner->integer("repeat_last_n", {-1, 1 << 30}).value_or(-1);
  if (last == 0) options.named.repetition_penalty = 1.0F;
  if (last > 0 && options.named.repetition_penalty.value_or(1.0F) != 1.0F)
    not_supported(inner->path("repeat_last_n"), "repeat_penalty counts the whole text here; set repeat_last_n to -1");
  // -1 and -2 are how Ollama's users say "as many as fit".
  if (const auto count = inner->integer("num_predict", {-2, 1 << 30}); count && *count >= 0) {
    if (*count == 0) bad_param(inner->path("num_predict"), "num_predict is 0; ask for at least one token");
    options.max_tokens = *count;
  }
  options.stop = read_stops(*inner, "stop", kMostStopTexts);
  return options;
}

}  // namespace

ChatRequest parse_ollama_chat(const Json& body) {
  const Fields fields(body);
  ChatRequest request;
  request.options = read_options(fields, RequestKind::kOllamaChat);
  request.messages = read_messages(fields);
  request.turn = read_turn(fields, request.messages);
  request.options.toolbox = read_openai_tools(fields);
  check_toolbox(request);
  request.variables = read_template_variables(fields);
  read_ollama_think(fields, request);
  return request;
}

std::variant<ChatRequest, CompletionRequest> parse_ollama_generate(const Json& body) {
  const Fields fields(body);
  AnswerOptions options = read_options(fields, RequestKind::kOllamaGenerate);
  std::string prompt = fields.required_text("prompt");
  if (fields.boolean("raw").value_or(false)) {
    static constexpr std::array<Unsupported, 2> kRaw{
        {{"system", "a raw prompt has no messages"}, {"think", "a raw prompt has no template"}}};
    refuse(fields, kRaw);
    CompletionRequest request;
    request.prompts.emplace_back(std::move(prompt));
    request.options = std::move(options);
    return request;
  }
  ChatRequest request;
  request.options = std::move(options);
  if (const auto system = fields.text("system"))
    request.messages.push_back({{"role", "system"}, {"content", *system}});
  request.messages.push_back({{"role", "user"}, {"content", std::move(prompt)}});
  request.variables = read_template_variables(fields);
  read_ollama_think(fields, request);
  return request;
}

}  // namespace kvasir
