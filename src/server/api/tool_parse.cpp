#include "server/api/tool_parse.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/api/api_error.h"
#include "server/api/known_fields.h"
#include "server/api/parse_common.h"

namespace kvasir {
namespace {

constexpr size_t kMostTools = 256;
constexpr size_t kLongestName = 128;

std::string read_name(const Fields& fields) {
  std::string name = fields.required_text("name");
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; };
  if (name.empty() || name.size() > kLongestName || !std::ranges::all_of(name, fits)) {
    bad_param(fields.path("name"),
              fmt::format("a tool's name is 1 to {} letters, digits, '_', '-' and '.', unlike \"{}\"", kLongestName,
                          excerpt(name, 40)));
  }
  return name;
}

// `schema` is what the API calls the parameters.
Toolbox::Tool read_function(const Fields& fields, const char* schema) {
  Toolbox::Tool tool;
  tool.name = read_name(fields);
  tool.function = {{"name", tool.name}, {"description", fields.text("description").value_or("")}};
  const std::optional<Fields> parameters = fields.object(schema);
  tool.function["parameters"] = parameters ? OrderedJson(parameters->json())
                                           : OrderedJson{{"type", "object"}, {"properties", OrderedJson::object()}};
  return tool;
}

// A tool that only programs of the model's may call, which do not run here, is none.
void check_callers(const Fields& tool) {
  const Json* callers = tool.find("allowed_callers");
  if (callers == nullptr || (callers->is_array() && std::ranges::find(*callers, "direct") != callers->end())) return;
  const std::string path = tool.path("allowed_callers");
  not_supported(path, path + " must have \"direct\": no programs run here");
}

void add_tool(Toolbox& box, Toolbox::Tool tool, const std::string& param) {
  for (const Toolbox::Tool& other : box.tools) {
    if (other.name == tool.name) bad_param(param, fmt::format("there are two tools named \"{}\"", tool.name));
  }
  box.tools.push_back(std::move(tool));
}

void must_call(Toolbox& box, const std::string& only, const std::string& param) {
  if (box.tools.empty()) bad_param(param, param + " asks for a call, and there are no tools");
  box.must = Toolbox::Must::kCall;
  box.only = only;
  const bool there = std::ranges::any_of(box.tools, [&](const Toolbox::Tool& tool) { return tool.name == only; });
  if (!only.empty() && !there) bad_param(param, fmt::format("there is no tool named \"{}\"", excerpt(only, 40)));
}

void skip_tool(Toolbox& box, const std::string& what) {
  constexpr size_t kMostTold = 16;
  if (box.skipped.size() < kMostTold) box.skipped.push_back(excerpt(what, 40));
}

// A namespace is a list of functions with a name.
void unfold_namespace(const Fields& tool, Toolbox& box) {
  const Json& list = tool.required("tools");
  const std::string space = tool.text("name").value_or("");
  refuse_unknown_fields(tool, PartKind::kNamespace);
  if (!list.is_array()) bad_param(tool.path("tools"), tool.path("tools") + " must be an array");
  for (size_t i = 0; i < list.size(); ++i) {
    const Fields inner(list[i], fmt::format("{}[{}].", tool.path("tools"), i));
    const bool function = inner.text("type").value_or("function") == "function" && inner.find("name") != nullptr;
    const auto there = [&](const Toolbox::Tool& one) { return one.name == inner.text("name"); };
    if (!function || std::ranges::any_of(box.tools, there) || box.tools.size() >= kMostTools) {
      skip_tool(box, space + "." + inner.text("name").value_or("?"));
      continue;
    }
    refuse_unknown_fields(inner, PartKind::kFlatTool);
    check_callers(inner);
    box.tools.push_back(read_function(inner, "parameters"));
    box.tools.back().space = space;
  }
}

void read_openai_tool(const Fields& tool, Toolbox& box) {
  const std::string type = tool.text("type").value_or("function");
  if (type == "namespace") return unfold_namespace(tool, box);
  if (type != "function") return skip_tool(box, type);
  // In a response's tools its words stand beside its type, and within it in a chat's.
  const bool flat =
      tool.find("function") == nullptr && (tool.find("name") != nullptr || tool.find("parameters") != nullptr);
  if (!flat) tool.required("function");
  const Fields function = flat ? tool : *tool.object("function");
  refuse_unknown_fields(tool, flat ? PartKind::kFlatTool : PartKind::kTool);
  if (!flat) refuse_unknown_fields(function, PartKind::kFunction);
  check_callers(function);
  add_tool(box, read_function(function, "parameters"), function.path("name"));
}

// {"mode": "auto" or "required", "tools": [{"type": "function", "name": …}]}: no other may be called.
void read_allowed_tools(const Fields& choice, Toolbox& box) {
  const Fields allowed = choice.object("allowed_tools").value_or(choice);
  refuse_unknown_fields(allowed, choice.find("allowed_tools") ? PartKind::kAllowedTools : PartKind::kToolChoice);
  const Json& list = allowed.required("tools");
  if (!list.is_array()) bad_param(allowed.path("tools"), allowed.path("tools") + " must be an array");
  std::vector<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    const Fields one(list[i], fmt::format("{}[{}].", allowed.path("tools"), i));
    const Fields function = one.object("function").value_or(one);
    if (one.text("type").value_or("function") == "function")
      refuse_unknown_fields(function, PartKind::kChosenFunction);
    names.push_back(function.text("name").value_or(""));
  }
  std::erase_if(box.tools,
                [&](const Toolbox::Tool& tool) { return std::ranges::find(names, tool.name) == names.end(); });
  const std::string mode = allowed.text("mode").value_or("auto");
  if (mode == "required") {
    must_call(box, "", "tool_choice");
  } else if (mode != "auto") {
    bad_param(allowed.path("mode"), allowed.path("mode") + " must be auto or required");
  }
}

void read_openai_choice(const Fields& fields, Toolbox& box) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return;
  if (*choice == "none") {
    box.tools.clear();
  } else if (*choice == "required") {
    must_call(box, "", "tool_choice");
  } else if (choice->is_object()) {
    const Fields named(*choice, "tool_choice.");
    const std::string type = named.required_text("type");
    refuse_unknown_fields(named, PartKind::kToolChoice);
    if (type == "allowed_tools") return read_allowed_tools(named, box);
    if (type != "function") bad_param("tool_choice.type", "tool_choice.type must be \"function\"");
    const bool flat = named.find("function") == nullptr && named.find("name") != nullptr;
    if (!flat) named.required("function");
    const Fields function = flat ? named : *named.object("function");
    if (!flat) refuse_unknown_fields(function, PartKind::kChosenFunction);
    must_call(box, read_name(function), function.path("name"));
  } else {
    bad_param("tool_choice", "tool_choice must be none, auto, required or {\"type\":\"function\",…}");
  }
}

OrderedJson read_arguments(const Json& arguments, const std::string& param) {
  if (arguments.is_object()) return OrderedJson(arguments);
  if (!arguments.is_string()) bad_param(param, param + " must be a string of JSON");
  return arguments_of(arguments.get_ref<const std::string&>());
}

bool is_tool_change(const Fields& block) {
  const std::string type = block.text("type").value_or("");
  return type == "tool_addition" || type == "tool_removal";
}

// Of a tool that was looked for, whose name is the result, the model is told anyway.
std::string result_text(const Fields& block) {
  const Json* content = block.find("content");
  if (content == nullptr) return {};
  const std::string param = block.path("content");
  if (!content->is_array()) return content_text(*content, param);
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const Fields part((*content)[i], fmt::format("{}[{}].", param, i));
    const bool found = part.text("type") == "tool_reference";
    if (found) refuse_unknown_fields(part, PartKind::kToolReference);
    text += found ? part.required_text("tool_name") : content_text(Json::array({(*content)[i]}), param);
  }
  return text;
}

void read_anthropic_tool(const Fields& tool, Toolbox& box) {
  const std::string type = tool.text("type").value_or("custom");
  if (type == "function")
    bad_param(tool.path("type"), tool.path("type") + " is OpenAI's; here a tool has a name and an input_schema");
  if (type != "custom") return skip_tool(box, type);  // Anthropic's own, whose schema only they know
  tool.required("input_schema");
  refuse_unknown_fields(tool, PartKind::kAnthropicTool);
  check_callers(tool);
  add_tool(box, read_function(tool, "input_schema"), tool.path("name"));
}

// {"type": "tool_addition" or "tool_removal", "tool": …} in a system message. Tools that are only named were told.
void change_tools(const Fields& block, Toolbox& box) {
  block.required("tool");
  const Fields tool = *block.object("tool");
  refuse_unknown_fields(block, PartKind::kToolChange);
  refuse_unknown_fields(tool, PartKind::kChangedTool);
  const std::string type = tool.required_text("type");
  const bool adds = block.text("type") == "tool_addition";
  if (type == "tool_definition" && adds) {
    tool.required("definition");
    return read_anthropic_tool(*tool.object("definition"), box);
  }
  if (type != "tool_reference") not_supported(tool.path("type"), "only tools of the request can be changed here");
  const std::string name = tool.required_text("name");
  if (!adds) std::erase_if(box.tools, [&](const Toolbox::Tool& one) { return one.name == name; });
}

void change_tools_in_messages(const Fields& fields, Toolbox& box) {
  const Json* messages = fields.find("messages");
  for (size_t i = 0; messages != nullptr && messages->is_array() && i < messages->size(); ++i) {
    const Fields message((*messages)[i], fmt::format("messages[{}].", i));
    const Json* content = message.find("content");
    if (message.text("role") != "system" || content == nullptr || !content->is_array()) continue;
    for (size_t j = 0; j < content->size(); ++j) {
      const Fields block((*content)[j], fmt::format("{}[{}].", message.path("content"), j));
      if (is_tool_change(block)) change_tools(block, box);
    }
  }
}

}  // namespace

const Json* tool_list(const Fields& fields) {
  const Json* list = fields.find("tools");
  if (list == nullptr) return nullptr;
  if (!list->is_array()) bad_param("tools", "tools must be an array");
  if (list->size() > kMostTools)
    bad_param("tools", fmt::format("there are {} tools; use at most {}", list->size(), kMostTools));
  return list;
}

Toolbox read_openai_tools(const Fields& fields) {
  Toolbox box;
  const Json* list = tool_list(fields);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i)
    read_openai_tool(Fields((*list)[i], fmt::format("tools[{}].", i)), box);
  box.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  read_openai_choice(fields, box);
  return box;
}

Toolbox read_anthropic_tools(const Fields& fields) {
  Toolbox box;
  const Json* list = tool_list(fields);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i)
    read_anthropic_tool(Fields((*list)[i], fmt::format("tools[{}].", i)), box);
  change_tools_in_messages(fields, box);
  const std::optional<Fields> choice = fields.object("tool_choice");
  if (!choice) return box;
  const std::string type = choice->required_text("type");
  refuse_unknown_fields(*choice, PartKind::kToolChoice);
  box.parallel = !choice->boolean("disable_parallel_tool_use").value_or(false);
  if (type == "none") {
    box.tools.clear();
  } else if (type == "any") {
    must_call(box, "", "tool_choice");
  } else if (type == "tool") {
    must_call(box, read_name(*choice), "tool_choice.name");
  } else if (type != "auto") {
    bad_param("tool_choice.type", "tool_choice.type must be auto, any, tool or none");
  }
  return box;
}

void check_toolbox(const ChatRequest& request) {
  const AnswerOptions& options = request.options;
  if (options.toolbox.must != Toolbox::Must::kCall) return;
  if (request.turn == ChatRequest::Turn::kContinues)
    bad_param("tool_choice", "tool_choice asks for a call, and the last message is to go on");
  if (options.format.kind == ResponseFormat::Kind::kText) return;
  bad_param("tool_choice", fmt::format("tool_choice asks for a call, and {} for another form", options.format.param));
}

OrderedJson arguments_of(const std::string& text) {
  try {
    const Json parsed = parse_json(text);
    if (parsed.is_object()) return OrderedJson(parsed);
  } catch (const ApiError&) {  // a model wrote it, and the client hands it back as it was
  }
  return OrderedJson(text);
}

OrderedJson read_tool_calls(const Json& calls, const std::string& param) {
  if (!calls.is_array()) bad_param(param, param + " must be an array");
  OrderedJson out = OrderedJson::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    const Fields call(calls[i], fmt::format("{}[{}].", param, i));
    call.required("function");
    const Fields function = *call.object("function");
    refuse_unknown_fields(call, PartKind::kToolCall);
    refuse_unknown_fields(function, PartKind::kCalledFunction);
    const Json* arguments = function.find("arguments");
    out.push_back({{"id", call.text("id").value_or("")},
                   {"type", "function"},
                   {"function",
                    {{"name", function.required_text("name")},
                     {"arguments", arguments == nullptr ? OrderedJson::object()
                                                        : read_arguments(*arguments, function.path("arguments"))}}}});
  }
  return out;
}

void add_anthropic_message(const Fields& message, OrderedJson& messages) {
  const std::string role = message.required_text("role");
  if (role != "user" && role != "assistant" && role != "system") {
    bad_param(message.path("role"),
              fmt::format("the role \"{}\" is none of user, assistant, system", excerpt(role, 40)));
  }
  refuse_unknown_fields(message, PartKind::kAnthropicMessage);
  const Json& content = message.required("content");
  std::string text;
  std::string thoughts;
  OrderedJson calls = OrderedJson::array();
  bool only_results = false;
  bool changes = false;
  if (!content.is_array()) text = content_text(content, message.path("content"));
  for (size_t i = 0; content.is_array() && i < content.size(); ++i) {
    const Fields block(content[i], fmt::format("{}[{}].", message.path("content"), i));
    const std::string type = block.required_text("type");
    if (type == "tool_result" && role == "user") {
      refuse_unknown_fields(block, PartKind::kToolResult);
      messages.push_back(
          {{"role", "tool"}, {"tool_call_id", block.required_text("tool_use_id")}, {"content", result_text(block)}});
      only_results = true;
    } else if (type == "tool_use" && role == "assistant") {
      refuse_unknown_fields(block, PartKind::kToolUse);
      block.required("input");
      calls.push_back(
          {{"id", block.required_text("id")},
           {"type", "function"},
           {"function",
            {{"name", block.required_text("name")}, {"arguments", OrderedJson(block.object("input")->json())}}}});
    } else if (role == "system" && is_tool_change(block)) {
      changes = true;  // read_anthropic_tools has it
    } else if (type == "thinking") {
      refuse_unknown_fields(block, PartKind::kThoughtPart);
      thoughts += block.text("thinking").value_or("");
    } else if (type != "redacted_thinking") {  // nobody but its maker can read that
      const Json one = Json::array({content[i]});
      text += content_text(one, message.path("content"));
    }
  }
  if ((only_results || changes) && text.empty()) return;
  messages.push_back({{"role", role}, {"content", std::move(text)}});
  if (!thoughts.empty() && role == "assistant") messages.back()["reasoning_content"] = std::move(thoughts);
  if (!calls.empty()) messages.back()["tool_calls"] = std::move(calls);
}

}  // namespace kvasir
