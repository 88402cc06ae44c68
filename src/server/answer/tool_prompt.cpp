#include "server/answer/tool_prompt.h"

#include <fmt/format.h>

#include <utility>

namespace kvasir {
namespace {

ToolFormat format_of(const std::string& source) {
  const auto says = [&](std::string_view word) { return source.find(word) != std::string::npos; };
  if (says("[TOOL_CALLS]")) return ToolFormat::kMistral;
  if (says("<tool_call>")) return ToolFormat::kHermes;
  if (says("<|python_tag|>") || says("ipython")) return ToolFormat::kLlama;
  return ToolFormat::kHermes;
}

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
      if (reference && item->get_ref<const std::string&>().starts_with("#")) {
        *item = root + item->get_ref<const std::string&>().substr(1);
      } else {
        todo.push_back(&*item);
      }
    }
  }
}

}  // namespace

ToolDialect tool_dialect(const Tokenizer& tokenizer) {
  ToolDialect dialect;
  const std::string source = tokenizer.chat_template().value_or("");
  if (source.find("tools") == std::string::npos) return dialect;
  dialect.told = ToolDialect::Told::kByTemplate;
  dialect.format = format_of(source);
  for (const char* mark : {"<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"}) {
    const std::optional<TokenId> id = tokenizer.id_of(mark);
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
    } else {
      out.push_back(message);
    }
  }
  for (OrderedJson& message : out) message.erase("results");
  return out;
}

ResponseFormat call_format(const Toolbox& toolbox, ToolFormat format) {
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
         {"properties", {{"name", {{"const", tool.name}}}, {"arguments", {{"$ref", "#/$defs/" + tool.name}}}}},
         {"required", OrderedJson::array({"name", "arguments"})},
         {"additionalProperties", false}});
  }
  OrderedJson schema{{"anyOf", std::move(calls)}, {"$defs", std::move(parameters)}};
  const bool several = format == ToolFormat::kMistral && toolbox.parallel && toolbox.only.empty();
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

}  // namespace kvasir
