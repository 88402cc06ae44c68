#include "server/anthropic_parse.h"

#include <fmt/format.h>

#include <array>

#include "server/api_error.h"
#include "server/parse_common.h"

namespace kvasir {
namespace {

constexpr size_t kMostStops = 64;

void refuse_later(const Fields& fields) {
  static constexpr std::array<Unsupported, 2> kLater{
      {{"tools", "tools come later"}, {"mcp_servers", "tools come later"}}};
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
  for (OrderedJson& message : read_messages(fields)) {
    const auto role = message["role"].get<std::string>();
    if (role != "user" && role != "assistant") {
      bad_param("messages",
                fmt::format("the role \"{}\" is neither user nor assistant; use the parameter system", role));
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace

ChatRequest parse_anthropic_count(const Json& body) {
  const Fields fields(body);
  refuse_later(fields);
  ChatRequest request;
  request.messages = messages_with_system(fields);
  return request;
}

ChatRequest parse_anthropic_messages(const Json& body) {
  const Fields fields(body);
  ChatRequest request = parse_anthropic_count(body);
  AnswerOptions& options = request.options;
  options.sampling.temperature = 1.0F;
  read_sampling(fields, options);
  options.space = read_cache_space(fields);
  fields.required("max_tokens");
  options.max_tokens = fields.integer("max_tokens", {1, 1 << 30});
  check_lengths(options, "max_tokens");
  options.stop = read_stops(fields, "stop_sequences", kMostStops);
  return request;
}

}  // namespace kvasir
