#include "server/api/responses_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "server/api/api_error.h"
#include "server/api/cache_breakpoints.h"
#include "server/api/known_fields.h"
#include "server/api/parse_common.h"
#include "server/api/reasoning_parse.h"
#include "server/api/speculative_parse.h"
#include "server/api/tool_parse.h"
#include "server/random_id.h"

namespace kvasir {
namespace {

constexpr Fields::Range kResponseTokens{1, 1 << 30};
constexpr size_t kMostMetadata = 16;
constexpr size_t kLongestId = 256;                    // bytes
constexpr size_t kLongestSettings = size_t{4} << 20;  // bytes of JSON: a stream says them three times

constexpr std::array<Unsupported, 4> kResponsesLater{{
    {"background", "an answer is made while its request is open"},
    {"conversation", "use previous_response_id"},
    {"context_management", "the whole conversation is read"},
    {"prompt", "there are no stored prompts; send the text"},
}};

void refuse_later_responses(const Fields& fields) {
  refuse(fields, kResponsesLater);
  const auto truncation = fields.text("truncation");
  if (truncation && *truncation != "disabled") {
    not_supported("truncation", "truncation is not supported: a conversation that is too long is refused");
  }
}

ResponseFormat read_text_format(const Fields& fields) {
  const std::optional<Fields> text = fields.object("text");
  if (!text) return {};
  refuse_unknown_fields(*text, PartKind::kText);
  return read_openai_format(*text, "format", [](const Fields& format) {
    format.required_text("name");
    return schema_format(format.required("schema"), format.path("schema"));
  });
}

// As the response repeats them: with all that a function may say.
OrderedJson tools_of(const Fields& fields) {
  OrderedJson out = OrderedJson::array();
  const Json* tools = fields.find("tools");
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    const Fields tool((*tools)[i]);
    if (tool.text("type").value_or("function") != "function") {
      out.push_back(OrderedJson(tool.json()));
      continue;
    }
    const Json* parameters = tool.find("parameters");
    const auto strict = tool.boolean("strict");
    out.push_back({{"type", "function"},
                   {"name", tool.required_text("name")},
                   {"description", tool.text("description").value_or("")},
                   {"parameters", parameters == nullptr ? OrderedJson(nullptr) : OrderedJson(*parameters)},
                   {"strict", strict ? OrderedJson(*strict) : OrderedJson(nullptr)}});
  }
  return out;
}

bool includes(const Fields& fields, const char* what) {
  const Json* include = fields.find("include");
  if (include != nullptr && !include->is_array()) bad_param("include", "include must be an array of strings");
  return include != nullptr && std::ranges::find(*include, what) != include->end();
}

// Probabilities are told to those who include them.
std::optional<int> read_logprobs(const Fields& fields) {
  const auto top = static_cast<int>(fields.integer("top_logprobs", {0, 20}).value_or(0));
  const bool wanted = includes(fields, "message.output_text.logprobs");
  if (!wanted && top > 0)
    bad_param("top_logprobs", "top_logprobs asks for \"message.output_text.logprobs\" in include as well");
  return wanted ? std::optional(top) : std::nullopt;
}

// Kept, and in no prompt, whose length would bound it.
std::string id_or_new(const Fields& item, const char* prefix) {
  std::string id = item.text("id").value_or("");
  if (id.size() > kLongestId)
    bad_param(item.path("id"),
              fmt::format("{} has {} bytes; use at most {}", item.path("id"), id.size(), kLongestId));
  return id.empty() ? prefix + random_hex(96) : id;
}

OrderedJson text_part(const std::string& role, const std::string& text) {
  if (role == "assistant") {
    return {{"type", "output_text"}, {"text", text}, {"annotations", OrderedJson::array()}};
  }
  return {{"type", "input_text"}, {"text", text}};
}

OrderedJson content_parts(const Json& content, const std::string& role, const std::string& param) {
  if (content.is_string()) return OrderedJson::array({text_part(role, content.get<std::string>())});
  if (!content.is_array()) bad_param(param, param + " must be a string, or an array of text parts");
  OrderedJson parts = OrderedJson::array();
  for (size_t i = 0; i < content.size(); ++i) {
    const Fields part(content[i], fmt::format("{}[{}].", param, i));
    const std::string type = part.required_text("type");
    if (type == "refusal") {
      refuse_unknown_fields(part, PartKind::kTextPart);
      parts.push_back({{"type", type}, {"refusal", part.required_text("refusal")}});
    } else if (type == "input_text" || type == "output_text" || type == "text") {
      refuse_unknown_fields(part, PartKind::kTextPart);
      parts.push_back(text_part(role, part.required_text("text")));
      if (const auto mark = part.object("prompt_cache_breakpoint"))
        parts.back()["prompt_cache_breakpoint"] = {{"mode", mark->required_text("mode")}};
    } else {
      not_supported(part.path("type"),
                    fmt::format("parts of type \"{}\" are not supported: this model reads text", excerpt(type, 40)));
    }
  }
  return parts;
}

OrderedJson read_message_item(const Fields& item) {
  static constexpr std::array<std::string_view, 4> kRoles{"user", "assistant", "system", "developer"};
  const std::string role = item.required_text("role");
  if (std::ranges::find(kRoles, role) == kRoles.end()) {
    bad_param(item.path("role"),
              fmt::format("the role \"{}\" is none of user, assistant, system, developer", excerpt(role, 40)));
  }
  return {{"id", id_or_new(item, "msg_")},
          {"type", "message"},
          {"role", role},
          {"status", "completed"},
          {"content", content_parts(item.required("content"), role, item.path("content"))}};
}

OrderedJson read_call(const Fields& item) {
  return {{"id", id_or_new(item, "fc_")},
          {"type", "function_call"},
          {"call_id", item.required_text("call_id")},
          {"name", item.required_text("name")},
          {"arguments", item.required_text("arguments")},
          {"status", "completed"}};
}

OrderedJson read_call_output(const Fields& item) {
  const Json& output = item.required("output");
  OrderedJson text = output.is_string() ? OrderedJson(output.get<std::string>())
                                        : content_parts(output, "tool", item.path("output"));
  return {{"id", id_or_new(item, "fco_")},
          {"type", "function_call_output"},
          {"call_id", item.required_text("call_id")},
          {"output", std::move(text)},
          {"status", "completed"}};
}

// What was thought, as far as it can be read.
OrderedJson read_reasoning(const Fields& item) {
  for (const char* list : {"summary", "content"}) {
    const Json* parts = item.find(list);
    for (size_t i = 0; parts != nullptr && parts->is_array() && i < parts->size(); ++i)
      refuse_unknown_fields(Fields((*parts)[i], fmt::format("{}[{}].", item.path(list), i)), PartKind::kThoughtPart);
  }
  const std::string text = reasoning_item_text(OrderedJson(item.json()));
  OrderedJson content = OrderedJson::array();
  if (!text.empty()) content.push_back({{"type", "reasoning_text"}, {"text", text}});
  return {{"id", id_or_new(item, "rs_")},
          {"type", "reasoning"},
          {"summary", OrderedJson::array()},
          {"content", std::move(content)}};
}

OrderedJson read_items(const Json& input) {
  if (input.is_string()) {
    const Json message{{"role", "user"}, {"content", input}};
    return OrderedJson::array({read_message_item(Fields(message))});
  }
  if (!input.is_array() || input.empty())
    bad_param("input", "input must be a string, or an array of at least one item");
  OrderedJson items = OrderedJson::array();
  for (size_t i = 0; i < input.size(); ++i) {
    const Fields item(input[i], fmt::format("input[{}].", i));
    const bool named_only = item.find("role") == nullptr && item.find("id") != nullptr;
    const std::string type = item.text("type").value_or(named_only ? "item_reference" : "message");
    if (type == "item_reference") {
      items.push_back({{"type", type}, {"id", item.required_text("id")}});
    } else if (type == "message") {
      items.push_back(read_message_item(item));
    } else if (type == "function_call") {
      items.push_back(read_call(item));
    } else if (type == "function_call_output") {
      items.push_back(read_call_output(item));
    } else if (type == "reasoning") {
      items.push_back(read_reasoning(item));
    } else {
      not_supported(item.path("type"),
                    fmt::format("items of type \"{}\" are not supported: use message, function_call, "
                                "function_call_output, reasoning or item_reference",
                                excerpt(type, 40)));
    }
    refuse_unknown_fields(item, PartKind::kItem);
  }
  const auto is_reasoning = [](const OrderedJson& item) { return item["type"] == "reasoning"; };
  if (std::ranges::all_of(items, is_reasoning)) bad_param("input", "input has nothing to answer");
  return items;
}

// At most 16 short strings, as OpenAI has it: they are kept.
OrderedJson read_metadata(const Fields& fields) {
  const std::optional<Fields> metadata = fields.object("metadata");
  OrderedJson out = OrderedJson::object();
  if (!metadata) return out;
  if (metadata->json().size() > kMostMetadata)
    bad_param("metadata",
              fmt::format("metadata has {} entries; use at most {}", metadata->json().size(), kMostMetadata));
  for (const auto& [key, value] : metadata->json().items()) {
    if (!value.is_string() || value.get_ref<const std::string&>().size() > 512 || key.size() > 64)
      bad_param("metadata", "metadata must have names of up to 64 bytes and strings of up to 512");
    out[key] = value.get<std::string>();
  }
  return out;
}

OrderedJson or_null(const std::optional<std::string>& text) {
  return text ? OrderedJson(*text) : OrderedJson(nullptr);
}

OrderedJson format_of(const Fields& fields) {
  const std::optional<Fields> text = fields.object("text");
  const Json* format = text ? text->find("format") : nullptr;
  return format == nullptr ? OrderedJson{{"type", "text"}} : OrderedJson(*format);
}

OrderedJson settings_of(const Fields& fields, const ResponsesRequest& request) {
  const AnswerOptions& options = request.chat.options;
  const Json* choice = fields.find("tool_choice");
  OrderedJson out{{"instructions", or_null(fields.text("instructions"))},
                  {"metadata", read_metadata(fields)},
                  {"temperature", nullptr},  // these two are the service's to say: it knows the model's wish
                  {"top_p", nullptr},
                  {"max_output_tokens", options.max_tokens ? OrderedJson(*options.max_tokens) : OrderedJson(nullptr)},
                  {"previous_response_id", or_null(fields.text("previous_response_id"))},
                  {"prompt_cache_key", or_null(fields.text("prompt_cache_key"))},
                  {"text", {{"format", format_of(fields)}}},
                  {"top_logprobs", options.logprobs.value_or(0)},
                  {"tools", tools_of(fields)},
                  {"tool_choice", choice == nullptr ? OrderedJson("auto") : OrderedJson(*choice)},
                  {"parallel_tool_calls", fields.boolean("parallel_tool_calls").value_or(true)},
                  {"truncation", "disabled"},
                  {"background", false},
                  {"service_tier", "default"},
                  {"access_programs", nullptr},
                  {"store", request.store}};
  if (const auto cache = fields.object("prompt_cache_options"))
    out["prompt_cache_options"] = {{"mode", cache->text("mode").value_or("implicit")},
                                   {"ttl", cache->text("ttl").value_or("30m")},
                                   {"comparison_response_id", or_null(cache->text("comparison_response_id"))}};
  if (const auto retention = fields.text("prompt_cache_retention")) out["prompt_cache_retention"] = *retention;
  if (const auto reasoning = fields.object("reasoning")) {
    out["reasoning"] = {{"effort", or_null(reasoning->text("effort"))},
                        {"summary", or_null(reasoning->text("summary"))}};
  }
  if (const auto user = fields.text("user")) out["user"] = *user;
  if (const auto identifier = fields.text("safety_identifier")) out["safety_identifier"] = *identifier;
  return out;
}

std::string text_of_parts(const OrderedJson& parts) {
  if (parts.is_string()) return parts.get<std::string>();
  std::string text;
  for (const OrderedJson& part : parts)
    text += part[part["type"] == "refusal" ? "refusal" : "text"].get<std::string>();
  return text;
}

// What was thought goes with what the assistant then said or called.
void add_thoughts(OrderedJson& message, std::string& thoughts) {
  if (message["role"] == "assistant" && !thoughts.empty()) message["reasoning_content"] = thoughts;
  thoughts.clear();
}

void add_call(OrderedJson& messages, const OrderedJson& item, std::string& thoughts) {
  const bool joins = !messages.empty() && messages.back()["role"] == "assistant" && thoughts.empty();
  if (!joins) messages.push_back({{"role", "assistant"}, {"content", ""}});
  if (!joins) add_thoughts(messages.back(), thoughts);
  messages.back()["tool_calls"].push_back(
      {{"id", item["call_id"]},
       {"type", "function"},
       {"function",
        {{"name", item["name"]}, {"arguments", arguments_of(item["arguments"].get_ref<const std::string&>())}}}});
}

}  // namespace

ResponsesRequest parse_responses_count(const Json& body) {
  const Fields fields(body);
  refuse_later_responses(fields);
  refuse_unknown_fields(fields, RequestKind::kResponse);
  fields.text("model");  // any name is served by the one model; only its type is checked
  ResponsesRequest request;
  request.items = read_items(fields.required("input"));
  request.chat.options.toolbox = read_openai_tools(fields);
  request.instructions = fields.text("instructions").value_or("");
  request.previous = fields.text("previous_response_id").value_or("");
  request.chat.variables = read_template_variables(fields);
  read_responses_reasoning(fields, request.chat);
  return request;
}

ResponsesRequest parse_responses(const Json& body) {
  const Fields fields(body);
  ResponsesRequest request = parse_responses_count(body);
  AnswerOptions& options = request.chat.options;
  options.sampling.temperature = 1.0F;
  read_sampling(fields, options);
  options.space = read_cache_space(fields);
  options.compare_with = read_comparison(fields);
  options.kv = read_kv(fields);
  options.speculative = read_speculative(fields);
  read_stream_options(fields, options.stream);
  options.max_tokens = fields.integer("max_output_tokens", kResponseTokens);
  check_lengths(options, "max_output_tokens");
  options.format = read_text_format(fields);
  options.logprobs = read_logprobs(fields);
  request.seal = includes(fields, "reasoning.encrypted_content");
  check_toolbox(request.chat);
  request.store = fields.boolean("store").value_or(true);
  openai_cache_breakpoints(body,
                           "input");  // their places are found in the whole conversation; here they are only checked
  request.settings = settings_of(fields, request);
  if (const size_t bytes = to_text(request.settings).size(); bytes > kLongestSettings) {
    bad_param("tools", fmt::format("tools, instructions and other settings have {} bytes; use at most {}", bytes,
                                   kLongestSettings));
  }
  return request;
}

OrderedJson messages_of(const std::string& instructions, const OrderedJson& items) {
  OrderedJson messages = OrderedJson::array();
  if (!instructions.empty()) messages.push_back({{"role", "system"}, {"content", instructions}});
  std::string thoughts;
  for (const OrderedJson& item : items) {
    if (item["type"] == "reasoning") {
      thoughts = reasoning_item_text(item);
    } else if (item["type"] == "function_call") {
      add_call(messages, item, thoughts);
    } else if (item["type"] == "function_call_output") {
      messages.push_back(
          {{"role", "tool"}, {"tool_call_id", item["call_id"]}, {"content", text_of_parts(item["output"])}});
    } else {
      const auto role = item["role"].get<std::string>();
      messages.push_back(
          {{"role", role == "developer" ? "system" : role}, {"content", text_of_parts(item["content"])}});
      add_thoughts(messages.back(), thoughts);
    }
  }
  return messages;
}

}  // namespace kvasir
