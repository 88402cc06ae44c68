#include "server/openai_parse.h"

#include <fmt/format.h>

#include <array>

#include "server/api_error.h"
#include "server/parse_common.h"

namespace kvasir {
namespace {

constexpr Fields::Range kTokenCount{1, 1 << 30};
constexpr size_t kMostStops = 4;
constexpr size_t kMostPrompts = 256;

constexpr std::array<Unsupported, 9> kLater{{
    {"logprobs", "the engine does not hand out probabilities"},
    {"top_logprobs", "the engine does not hand out probabilities"},
    {"prompt_logprobs", "the engine does not hand out probabilities"},
    {"tools", "tools come later"},
    {"functions", "tools come later"},
    {"min_tokens", "the sampler cannot forbid the end of the text"},
    {"audio", "this model writes text"},
    {"modalities", "this model writes text"},
    {"guided_json", "constrained output comes later"},
}};

void read_common(const Fields& fields, AnswerOptions& options) {
  options.sampling.temperature = 1.0F;
  fields.text("model");  // any name is served by the one model; only its type is checked
  read_sampling(fields, options);
  options.stop = read_stops(fields, "stop", kMostStops);
  if (const auto n = fields.integer("n", {1, 128})) options.n = static_cast<int>(*n);
  if (const auto stream = fields.object("stream_options")) {
    options.include_usage = stream->boolean("include_usage").value_or(false) && options.stream;
  }
}

void refuse_formats(const Fields& fields) {
  const std::optional<Fields> format = fields.object("response_format");
  if (!format || format->required_text("type") == "text") return;
  not_supported("response_format", "response_format is not supported yet: only {\"type\":\"text\"} is");
}

// Modalities that ask for nothing but text ask for nothing.
void refuse_later(const Fields& fields) {
  const Json* modalities = fields.find("modalities");
  const bool text_only = modalities != nullptr && *modalities == Json::array({"text"});
  for (const Unsupported& one : kLater) {
    if (text_only && std::string_view(one.name) == "modalities") continue;
    refuse(fields, std::span(&one, 1));
  }
  refuse_formats(fields);
}

std::vector<Prompt> read_prompts(const Json& json) {
  if (json.is_string()) return {json.get<std::string>()};
  if (!json.is_array() || json.empty())
    bad_param("prompt", "prompt must be a string, an array of strings, or an array of token ids");
  if (json.front().is_number()) return {token_ids(json, "prompt")};
  if (json.size() > kMostPrompts)
    bad_param("prompt", fmt::format("prompt has {} entries; use at most {}", json.size(), kMostPrompts));
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
  refuse_later(fields);
  ChatRequest request;
  request.messages = read_messages(fields);
  read_common(fields, request.options);
  request.options.max_tokens = fields.integer("max_completion_tokens", kTokenCount);
  const auto old_name = fields.integer("max_tokens", kTokenCount);
  if (!request.options.max_tokens) request.options.max_tokens = old_name;
  if (const auto variables = fields.object("chat_template_kwargs"))
    request.variables = OrderedJson(variables->json());
  return request;
}

CompletionRequest parse_openai_completion(const Json& body) {
  const Fields fields(body);
  refuse_later(fields);
  static constexpr std::array<Unsupported, 1> kSuffix{{{"suffix", "this model cannot fill in the middle"}}};
  refuse(fields, kSuffix);
  CompletionRequest request;
  request.prompts = read_prompts(fields.required("prompt"));
  read_common(fields, request.options);
  if (const auto best = fields.integer("best_of", {1, 128}); best && *best != request.options.n) {
    not_supported("best_of", "best_of is not supported yet: it needs the probabilities of the answers");
  }
  request.options.max_tokens = fields.integer("max_tokens", kTokenCount).value_or(16);
  request.echo = fields.boolean("echo").value_or(false);
  return request;
}

}  // namespace kvasir
