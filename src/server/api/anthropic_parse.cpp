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
  // What clients ask for by themselves is to clear nothing.
  const auto management = fields.object("context_management");
  if (management) refuse_unknown_fields(*management, PartKind::kContextManagement);
  const Json* edits = management ? management->find("edits") : nullptr;
  if (edits != nullptr && !edits->is_array())
    bad_param("context_management.edits", "context_management.edits must be an array");
  for (size_t i = 0; edits != nullptr && i < edits->size(); ++i) {
    const Fields edit((*edits)[i], fmt::format("context_management.edits[{}].", i));
    const Json* keep = edit.find("keep");
    const bool clears_nothing =
        edit.required_text("type").starts_with("clear_thinking") && keep != nullptr && *keep == "all";
    if (clears_nothing) refuse_unknown_fields(edit, PartKind::kContextEdit);
    if (clears_nothing) continue;
    not_supported(edit.path("type"), "context_management is not supported: the whole conversation is read");
  }
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
    refuse_unknown_fields(form, PartKind::kFormat);
    request.options.format = schema_format(form.required("schema"), form.path("schema"));
  };
  if (const auto form = fields.object("output_format")) read_form(*form);
  const std::optional<Fields> config = fields.object("output_config");
  if (!config) return;
  refuse_unknown_fields(*config, PartKind::kOutputConfig);
  if (const auto form = config->object("format")) read_form(*form);
  read_effort(*config, "effort", request);
}

// A system message may set the effort for what follows it: the newest that does wins.
void read_turn_control(const Fields& fields, ChatRequest& request) {
  const Json& messages = fields.required("messages");
  for (size_t i = messages.size(); i > 0; --i) {
    const Fields message(messages[i - 1], fmt::format("messages[{}].", i - 1));
    const auto config = message.object("output_config");
    if (!config) continue;
    refuse_unknown_fields(*config, PartKind::kTurnConfig);
    if (message.text("role") != "system")
      bad_param(message.path("output_config"), message.path("output_config") + " is for messages of the role system");
    if (config->find("effort") != nullptr) return read_effort(*config, "effort", request);
  }
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
  read_turn_control(fields, request);
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
  if (const auto diagnostics = fields.object("diagnostics")) {
    refuse_unknown_fields(*diagnostics, PartKind::kDiagnostics);
    options.compare_with = diagnostics->text("previous_message_id").value_or("");
  }
  return request;
}

}  // namespace kvasir
