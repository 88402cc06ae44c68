#include "server/answer/tool_prompt.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "base/bounded_json.h"

namespace kvasir {
namespace {

std::string system_text(const Toolbox& toolbox) {
  std::string text =
      "You may call functions to help with the user's request. They are described here in JSON:\n<tools>\n";
  for (const Toolbox::Tool& tool : toolbox.tools)
    text += to_text({{"type", "function"}, {"function", tool.function}}) + "\n";
  return text +
         "</tools>\nTo call one, write its name and arguments as JSON between tags:\n"
         "<tool_call>\n{\"name\": \"NAME\", \"arguments\": {…}}\n</tool_call>";
}

std::string text_of_calls(const OrderedJson& message) {
  auto text = message["content"].get<std::string>();
  for (const OrderedJson& call : message["tool_calls"]) {
    const OrderedJson& function = call["function"];
    if (!text.empty()) text += "\n";
    text += fmt::format("<tool_call>\n{}\n</tool_call>",
                        to_text({{"name", function["name"]}, {"arguments", function["arguments"]}}));
  }
  return text;
}

// Several results in a row are one message of the user's: templates often want user and assistant to take turns.
void add_result(OrderedJson& messages, const OrderedJson& result) {
  const std::string text = fmt::format("<tool_response>\n{}\n</tool_response>", result["content"].get<std::string>());
  const bool joins = !messages.empty() && messages.back().contains("results");
  if (!joins) {
    messages.push_back({{"role", "user"}, {"content", text}, {"results", true}});
    return;
  }
  messages.back()["content"].get_ref<std::string&>().append("\n").append(text);
}

// References within a tool's schema begin at its own root, which lies deeper now. Walked without recursion: a
// stranger chose the nesting.
void move_references(OrderedJson& schema, const std::string& root) {
  std::vector<OrderedJson*> todo{&schema};
  while (!todo.empty()) {
    OrderedJson& at = *todo.back();
    todo.pop_back();
    if (!at.is_structured()) continue;
    for (auto item = at.begin(); item != at.end(); ++item) {
      const bool reference = at.is_object() && item.key() == "$ref" && item->is_string();
      const std::string to = reference ? item->get<std::string>() : "";
      if (to == "#" || to.starts_with("#/")) {
        *item = root + to.substr(1);
      } else {
        todo.push_back(&*item);
      }
    }
  }
}

}  // namespace

ToolDialect tool_dialect(const Tokenizer& tokenizer, const std::string& name) {
  ToolDialect dialect;
  const std::string source = tokenizer.chat_template().value_or("");
  const bool told = source.find("tools") != std::string::npos;
  if (told) dialect.told = ToolDialect::Told::kByTemplate;
  // Where the system prompt tells of the tools, it tells to call them in Hermes' way.
  dialect.format = find_tool_format("hermes");
  if (told) dialect.format = &tool_format_of(source);
  if (!name.empty()) dialect.format = find_tool_format(name);
  for (const std::string_view token : dialect.format->tokens) {
    const std::optional<TokenId> id = tokenizer.id_of(token);
    if (id && tokenizer.is_special(*id)) dialect.marks.push_back(*id);
  }
  return dialect;
}

OrderedJson template_tools(const Toolbox& toolbox) {
  OrderedJson out;
  for (const Toolbox::Tool& tool : toolbox.tools) out.push_back({{"type", "function"}, {"function", tool.function}});
  return out;
}

OrderedJson messages_with_tools(const OrderedJson& messages, const Toolbox& toolbox) {
  OrderedJson out = OrderedJson::array();
  if (!toolbox.tools.empty()) out.push_back({{"role", "system"}, {"content", system_text(toolbox)}});
  for (const OrderedJson& message : messages) {
    const bool first_of_system = out.size() == 1 && !toolbox.tools.empty() && message["role"] == "system";
    if (first_of_system) {
      out[0]["content"] = message["content"].get<std::string>() + "\n\n" + out[0]["content"].get<std::string>();
    } else if (message["role"] == "tool") {
      add_result(out, message);
    } else if (message.contains("tool_calls")) {
      out.push_back({{"role", "assistant"}, {"content", text_of_calls(message)}});
      if (message.contains("reasoning_content")) out.back()["reasoning_content"] = message["reasoning_content"];
    } else {
      out.push_back(message);
    }
  }
  for (OrderedJson& message : out) message.erase("results");
  return out;
}

ResponseFormat call_format(const Toolbox& toolbox, const ToolFormat& format) {
  constexpr int kMostCalls = 16;
  OrderedJson calls = OrderedJson::array();
  OrderedJson parameters = OrderedJson::object();
  for (const Toolbox::Tool& tool : toolbox.tools) {
    if (!toolbox.only.empty() && tool.name != toolbox.only) continue;
    OrderedJson schema = tool.function["parameters"];
    move_references(schema, "#/$defs/" + tool.name);
    parameters[tool.name] = std::move(schema);
    calls.push_back(
        {{"type", "object"},
         {"properties", {{"name", {{"const", tool.name}}}, {format.arguments, {{"$ref", "#/$defs/" + tool.name}}}}},
         {"required", OrderedJson::array({"name", format.arguments})},
         {"additionalProperties", false}});
  }
  OrderedJson schema{{"anyOf", std::move(calls)}, {"$defs", std::move(parameters)}};
  const bool several = format.forced == ToolFormat::Forced::kList && toolbox.parallel && toolbox.only.empty();
  if (several) {
    OrderedJson call{{"anyOf", std::move(schema["anyOf"])}};
    schema.erase("anyOf");
    schema["type"] = "array";
    schema["items"] = std::move(call);
    schema["minItems"] = 1;
    schema["maxItems"] = kMostCalls;
  }
  return {ResponseFormat::Kind::kJsonSchema, to_text(schema), "tools"};
}

ResponseFormat call_or_json(const Toolbox& toolbox, const ToolFormat& format, const ResponseFormat& form) {
  if (form.kind != ResponseFormat::Kind::kJsonSchema) return form;  // any object, which a call is
  const auto own_names = [&](const char* name) { return form.schema.find(name) != std::string::npos; };
  if (own_names("\"$id\"") || own_names("\"$anchor\"") || own_names("\"$dynamic") || own_names("\"$recursive"))
    return form;
  auto read = read_bounded_json(form.schema, {});
  const auto* json = std::get_if<Json>(&read);
  if (json == nullptr || !json->is_object()) return form;  // what is wrong with it is told where it is compiled
  OrderedJson other = *json;
  move_references(other, "#/$defs/form");
  OrderedJson any = OrderedJson::array({{{"$ref", "#/$defs/form"}}});
  for (const Toolbox::Tool& tool : toolbox.tools) {
    any.push_back({{"type", "object"},
                   {"properties", {{"name", {{"const", tool.name}}}, {format.arguments, {{"type", "object"}}}}},
                   {"required", OrderedJson::array({"name", format.arguments})},
                   {"additionalProperties", false}});
  }
  const OrderedJson schema{{"anyOf", std::move(any)}, {"$defs", {{"form", std::move(other)}}}};
  return {ResponseFormat::Kind::kJsonSchema, to_text(schema), form.param};
}

}  // namespace kvasir
