#include "server/api/anthropic_parse.h"

#include <fmt/format.h>

#include <array>

#include "server/api/api_error.h"
#include "server/api/parse_common.h"
#include "server/api/tool_parse.h"

namespace kvasir {
namespace {

constexpr size_t kMostStopSequences = 64;

void refuse_later_anthropic(const Fields& fields) {
  static constexpr std::array<Unsupported, 1> kLater{{{"mcp_servers", "call them yourself, as tools"}}};
  refuse(fields, kLater);
  const std::optional<Fields> thinking = fields.object("thinking");
  if (thinking && thinking->required_text("type") != "disabled")
    not_supported("thinking", "thinking is not supported by this model");
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

}  // namespace

ChatRequest parse_anthropic_count(const Json& body) {
  const Fields fields(body);
  refuse_later_anthropic(fields);
  ChatRequest request;
  request.messages = messages_with_system(fields);
  request.options.toolbox = read_anthropic_tools(fields);
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
  fields.required("max_tokens");
  options.max_tokens = fields.integer("max_tokens", {1, 1 << 30});
  check_lengths(options, "max_tokens");
  options.stop = read_stops(fields, "stop_sequences", kMostStopSequences);
  return request;
}

}  // namespace kvasir
