#include "server/api/parse_common.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "server/api/api_error.h"
#include "server/api/known_fields.h"
#include "server/api/reasoning_parse.h"
#include "server/api/tool_parse.h"

namespace kvasir {
namespace {

constexpr size_t kMostBiases = 1024;  // every token of every answer is charged for each
constexpr size_t kMostStopTokens = 1024;
constexpr size_t kLongestSpace = 1024;  // bytes of cache_salt and of prompt_cache_key
constexpr size_t kLongestStop = 4096;   // bytes

TokenId token_of_key(const std::string& key) {
  TokenId token = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
  // One way to write each, so that no token comes twice.
  if (error != std::errc{} || end != key.data() + key.size() || key != std::to_string(token) || token < 0) {
    bad_param("logit_bias",
              fmt::format("the keys of logit_bias must be token ids, and \"{}\" is none", excerpt(key, 40)));
  }
  return token;
}

void read_logit_bias(const Fields& fields, SamplingParams& sampling) {
  const std::optional<Fields> bias = fields.object("logit_bias");
  if (!bias) return;
  if (bias->json().size() > kMostBiases) {
    bad_param("logit_bias",
              fmt::format("logit_bias has {} entries; use at most {}", bias->json().size(), kMostBiases));
  }
  for (const auto& [key, value] : bias->json().items()) {
    const TokenId token = token_of_key(key);
    if (const auto by = bias->number(key, {-100, 100}))
      sampling.logit_bias.emplace_back(token, static_cast<float>(*by));
  }
}

// {"format": "bf16", "window": 1024} as "bf16, window=1024". What its values mean is for the parser to say.
std::string policy_text(const Json& object) {
  std::string out;
  for (const auto& [name, value] : object.items()) {
    if (value.is_null()) continue;
    if (!value.is_string() && !value.is_number_integer()) {
      bad_param("kv." + name, fmt::format("kv.{} must be a string or a whole number", name));
    }
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (text.find_first_of(",=") != std::string::npos) bad_param("kv." + name, "kv." + name + " is one setting");
    if (!out.empty()) out += ", ";
    const bool layers = !name.empty() && name.front() >= '0' && name.front() <= '9';  // "3-5": "int8/int4"
    out += name == "format" ? text : fmt::format("{}{}{}", name, layers ? ":" : "=", text);
  }
  return out.empty() ? "f16" : out;
}

std::string part_text(const Fields& part) {
  const std::string type = part.required_text("type");
  if (type != "text" && type != "input_text" && type != "output_text") {
    not_supported(part.path("type"),
                  fmt::format("parts of type \"{}\" are not supported: this model reads text", excerpt(type, 40)));
  }
  refuse_unknown_fields(part, PartKind::kTextPart);
  return part.required_text("text");
}

// Mistral's and DeepSeek's "prefix", Kimi's "partial": the last message goes on. True: it says so.
bool is_begun(const Json& messages) {
  bool begun = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Fields message(messages[i], fmt::format("messages[{}].", i));
    for (const char* name : {"prefix", "partial"}) {
      if (!message.boolean(name).value_or(false)) continue;
      if (i + 1 < messages.size() || message.text("role") != "assistant") {
        bad_param(message.path(name),
                  message.path(name) + " is for the last message, which must be of the role assistant");
      }
      begun = true;
    }
  }
  return begun;
}

// Of an assistant's: without what it thought, and with what it said instead of an answer.
std::string said_text(const Fields& message) {
  const Json* content = message.find("content");
  if (content == nullptr || *content == "") return message.text("refusal").value_or("");
  const std::string param = message.path("content");
  if (!content->is_array()) return content_text(*content, param);
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const Fields part((*content)[i], fmt::format("{}[{}].", param, i));
    const std::string type = part.required_text("type");
    if (type == "refusal") {
      refuse_unknown_fields(part, PartKind::kTextPart);
      text += part.required_text("refusal");
    } else if (type == "thinking" || type == "reasoning") {
      refuse_unknown_fields(part, PartKind::kThoughtPart);
    } else {
      text += part_text(part);
    }
  }
  return text;
}

OrderedJson read_message(const Fields& message) {
  static constexpr std::array<std::string_view, 6> kRoles{"system",    "developer", "user",
                                                          "assistant", "tool",      "function"};
  const std::string role = message.required_text("role");
  if (std::ranges::find(kRoles, role) == kRoles.end()) {
    bad_param(message.path("role"),
              fmt::format("the role \"{}\" is none of system, developer, user, assistant, tool", excerpt(role, 40)));
  }
  refuse_unknown_fields(message, PartKind::kChatMessage);
  static constexpr std::array<Unsupported, 3> kLater{
      {{"function_call", "use tool_calls"}, {"images", "this model reads text"}, {"audio", "this model reads text"}}};
  refuse(message, kLater);
  const bool assistant = role == "assistant";
  if (!assistant) message.required("content");
  OrderedJson out{{"role", role == "developer" ? "system" : role},
                  {"content", assistant ? said_text(message)
                                        : content_text(message.required("content"), message.path("content"))}};
  for (const char* key : {"name", "tool_call_id"}) {
    if (const auto value = message.text(key)) out[key] = *value;
  }
  const auto tool = message.text("tool_name");  // Ollama's
  if (tool && !out.contains("name")) out["name"] = *tool;
  if (role == "function") out["role"] = "tool";
  if (!assistant) return out;
  if (auto thoughts = reasoning_of(message)) out["reasoning_content"] = std::move(*thoughts);
  const Json* calls = message.find("tool_calls");
  if (calls != nullptr && !calls->empty()) out["tool_calls"] = read_tool_calls(*calls, message.path("tool_calls"));
  return out;
}

}  // namespace

bool asks_for_something(const Json& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

ChatRequest::Turn read_turn(const Fields& fields, const OrderedJson& messages) {
  const bool goes_on =
      is_begun(fields.required("messages")) || fields.boolean("continue_final_message").value_or(false);
  const bool opens = fields.boolean("add_generation_prompt").value_or(!goes_on);
  if (!goes_on) return opens ? ChatRequest::Turn::kNew : ChatRequest::Turn::kBare;
  if (opens) {
    bad_param("continue_final_message",
              "continue_final_message goes on with the last message, and add_generation_prompt begins a new one");
  }
  if (messages.back()["role"] != "assistant")
    bad_param("continue_final_message", "continue_final_message needs a last message of the role assistant");
  return ChatRequest::Turn::kContinues;
}

bool read_stream_options(const Fields& fields, bool stream) {
  const auto options = fields.object("stream_options");
  if (!options) return false;
  refuse_unknown_fields(*options, PartKind::kStreamOptions);
  options->boolean("include_obfuscation");  // hides lengths from those who listen to TLS: only the type is checked
  const bool usage = options->boolean("include_usage").value_or(false);
  if (!stream) bad_param("stream_options", "stream_options is for streams; leave it out, or set stream to true");
  return usage;
}

OrderedJson read_template_variables(const Fields& fields) {
  const auto variables = fields.object("chat_template_kwargs");
  return variables ? OrderedJson(variables->json()) : OrderedJson::object();
}

void refuse(const Fields& fields, std::span<const Unsupported> list) {
  for (const Unsupported& one : list) {
    const Json* field = fields.find(one.name);
    if (field == nullptr || !asks_for_something(*field)) continue;
    not_supported(fields.path(one.name), fmt::format("{} is not supported yet: {}", fields.path(one.name), one.why));
  }
}

void read_sampling(const Fields& fields, AnswerOptions& options) {
  SamplingParams& sampling = options.sampling;
  SamplingOverrides& named = options.named;
  const auto real = [&](const char* name, Fields::Range range, auto& out) {
    if (const auto value = fields.number(name, range)) out = static_cast<float>(*value);
  };
  real("temperature", {0, 2}, named.temperature);
  real("top_p", {0, 1}, named.top_p);
  real("min_p", {0, 1}, named.min_p);
  real("repetition_penalty", {0.01, 100}, named.repetition_penalty);
  real("frequency_penalty", {-2, 2}, sampling.frequency_penalty);
  real("presence_penalty", {-2, 2}, sampling.presence_penalty);
  // -1 is how vLLM's users say "all".
  if (const auto k = fields.integer("top_k", {-1, 1 << 30}))
    named.top_k = static_cast<int>(std::max<std::int64_t>(*k, 0));
  read_logit_bias(fields, sampling);
  if (const auto seed = fields.integer("seed", {-0x1p63, 0x1p63})) options.seed = static_cast<std::uint64_t>(*seed);
  if (const Json* ids = fields.find("stop_token_ids")) options.stop_token_ids = token_ids(*ids, "stop_token_ids");
  if (options.stop_token_ids.size() > kMostStopTokens) {
    bad_param("stop_token_ids", fmt::format("stop_token_ids has {} tokens; use at most {}",
                                            options.stop_token_ids.size(), kMostStopTokens));
  }
  options.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  options.min_tokens = fields.integer("min_tokens", {0, 1 << 30}).value_or(0);
  options.priority = static_cast<int>(fields.integer("priority", {-0x1p31, 0x1p31 - 1}).value_or(0));
  options.explain = fields.boolean("explain").value_or(false);
  options.stream = fields.boolean("stream").value_or(options.stream);
}

double as_written(float value) { return std::stod(fmt::format("{}", value)); }

void check_lengths(const AnswerOptions& options, const std::string& param) {
  if (!options.max_tokens || options.min_tokens <= *options.max_tokens) return;
  bad_param("min_tokens",
            fmt::format("min_tokens is {}, and {} only {}", options.min_tokens, param, *options.max_tokens));
}

std::optional<int> read_chat_logprobs(const Fields& fields) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = static_cast<int>(fields.integer("top_logprobs", {0, 20}).value_or(0));
  if (!wanted && top > 0) bad_param("top_logprobs", "top_logprobs asks for logprobs: true as well");
  return wanted ? std::optional(top) : std::nullopt;
}

ResponseFormat schema_format(const Json& schema, const std::string& param) {
  const bool text = schema.is_string();
  return {ResponseFormat::Kind::kJsonSchema, text ? schema.get<std::string>() : to_text(OrderedJson(schema)), param};
}

ResponseFormat read_openai_format(const Fields& fields, const std::string& name, ReadSchema read_schema) {
  const std::optional<Fields> format = fields.object(name);
  if (!format) return {};
  refuse_unknown_fields(*format, PartKind::kFormat);
  const std::string type = format->required_text("type");
  if (type == "text") return {};
  const Json* schema = format->find("schema");
  if (type == "json_object" && schema != nullptr) return schema_format(*schema, format->path("schema"));
  if (type == "json_object") return {ResponseFormat::Kind::kJsonObject, {}, fields.path(name)};
  if (type == "json_schema") return read_schema(*format);
  bad_param(format->path("type"),
            fmt::format("the type \"{}\" is none of text, json_object, json_schema", excerpt(type, 40)));
}

CacheSpace read_cache_space(const Fields& fields) {
  const auto read = [&](const char* name) {
    std::string text = fields.text(name).value_or("");
    if (text.size() > kLongestSpace)
      bad_param(name, fmt::format("{} has {} bytes; use at most {}", name, text.size(), kLongestSpace));
    return text;
  };
  return {read("cache_salt"), read("prompt_cache_key")};
}

std::optional<std::string> read_comparison(const Fields& fields) {
  const auto options = fields.object("prompt_cache_options");
  const auto id = options ? options->text("comparison_response_id") : std::nullopt;
  return id && !id->empty() ? id : std::nullopt;
}

RequestedKv read_kv(const Fields& fields) {
  const Json* field = fields.find("kv");
  if (field == nullptr) return {};
  try {
    if (field->is_string()) return parse_requested_kv(field->get_ref<const std::string&>(), "kv");
    if (field->is_object()) return parse_requested_kv(policy_text(*field), "kv");
  } catch (const ApiError&) {
    throw;
  } catch (const Error& error) {
    bad_param("kv", fmt::format("{}; {}", excerpt(error.parts().what, 300), error.parts().fix));
  }
  bad_param("kv",
            R"(kv must be a KV policy like "bf16, window=1024", or an object like {"k": "f16", "window": 1024})");
}

std::vector<std::string> read_stops(const Fields& fields, const std::string& name, size_t most) {
  const Json* field = fields.find(name);
  if (field == nullptr) return {};
  const std::string param = fields.path(name);
  std::vector<std::string> stops;
  if (field->is_string()) {
    stops.push_back(field->get<std::string>());
  } else if (field->is_array()) {
    if (field->size() > most)
      bad_param(param, fmt::format("{} has {} strings; use at most {}", param, field->size(), most));
    for (const Json& item : *field) {
      if (!item.is_string()) bad_param(param, param + " must be a string, or an array of strings");
      stops.push_back(item.get<std::string>());
    }
  } else {
    bad_param(param, param + " must be a string, or an array of strings");
  }
  for (const std::string& stop : stops) {
    if (stop.empty()) bad_param(param, param + " has an empty string, which would end every answer at once");
    if (stop.size() > kLongestStop)
      bad_param(param, fmt::format("{} has a string longer than {} bytes", param, kLongestStop));
  }
  return stops;
}

std::string content_text(const Json& content, const std::string& param) {
  if (content.is_null()) return {};
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) bad_param(param, param + " must be a string, or an array of text parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    text += part_text(Fields(content[i], fmt::format("{}[{}].", param, i)));
  }
  return text;
}

OrderedJson read_messages(const Fields& fields) {
  const Json& list = fields.required("messages");
  if (!list.is_array() || list.empty()) bad_param("messages", "messages must be an array of at least one message");
  OrderedJson messages = OrderedJson::array();
  for (size_t i = 0; i < list.size(); ++i)
    messages.push_back(read_message(Fields(list[i], fmt::format("messages[{}].", i))));
  return messages;
}

}  // namespace kvasir
