#include "server/api/anthropic_parse.h"

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

constexpr size_t kMostStopSequences = 64;

void refuse_later_anthropic(const Fields& fields) {
  static constexpr std::array<Unsupported, 1> kLater{{{"mcp_servers", "call them yourself, as tools"}}};
  refuse(fields, kLater);
}

// The system prompt stands beside the messages here, and before them in a template.
OrderedJson messages_with_system(const Fields& fields) {
  OrderedJson messages = OrderedJson::array();
  if (const Json* system = fields.find("system")) {
    messages.push_back({{"role", "system"}, {"content", content_text(*system, "system")}});
  }
  const Json& list = fields.required("messages");
  if (!list.is_array() || list.empty()) bad_param("messages", "messages must be an array of at least one message");
  for (size_t i = 0; i < list.size(); ++i)
    add_anthropic_message(Fields(list[i], fmt::format("messages[{}].", i)), messages);
  return messages;
}

// {"format": {"type": "json_schema", "schema": …}, "effort": …}; the form stood in "output_format" before.
void read_output_config(const Fields& fields, ChatRequest& request) {
  const auto read_form = [&](const Fields& form) {
    if (form.required_text("type") != "json_schema")
      bad_param(form.path("type"), form.path("type") + " must be \"json_schema\"");
    request.options.format = schema_format(form.required("schema"), form.path("schema"));
  };
  if (const auto form = fields.object("output_format")) read_form(*form);
  const std::optional<Fields> config = fields.object("output_config");
  if (!config) return;
  if (const auto form = config->object("format")) read_form(*form);
  read_effort(*config, "effort", request);
}

// A last message of the assistant's goes on, unless it ends with a call.
ChatRequest::Turn turn_of(const OrderedJson& messages) {
  const OrderedJson& last = messages.back();
  const bool goes_on = last["role"] == "assistant" && !last.contains("tool_calls") && last["content"] != "";
  return goes_on ? ChatRequest::Turn::kContinues : ChatRequest::Turn::kNew;
}

}  // namespace

ChatRequest parse_anthropic_count(const Json& body) {
  const Fields fields(body);
  refuse_later_anthropic(fields);
  refuse_unknown_fields(fields, RequestKind::kMessage);
  ChatRequest request;
  request.messages = messages_with_system(fields);
  request.turn = turn_of(request.messages);
  request.variables = read_template_variables(fields);
  request.options.toolbox = read_anthropic_tools(fields);
  read_output_config(fields, request);
  check_toolbox(request);
  read_anthropic_thinking(fields, request);
  return request;
}

ChatRequest parse_anthropic_messages(const Json& body) {
  const Fields fields(body);
  ChatRequest request = parse_anthropic_count(body);
  AnswerOptions& options = request.options;
  options.sampling.temperature = 1.0F;
  read_sampling(fields, options);
  options.space = read_cache_space(fields);
  options.kv = read_kv(fields);
  options.speculative = read_speculative(fields);
  fields.required("max_tokens");
  options.max_tokens = fields.integer("max_tokens", {1, 1 << 30});
  check_lengths(options, "max_tokens");
  options.stop = read_stops(fields, "stop_sequences", kMostStopSequences);
  return request;
}

}  // namespace kvasir
