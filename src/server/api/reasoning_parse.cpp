#include "server/api/reasoning_parse.h"

#include <fmt/format.h>

#include "server/api/api_error.h"
#include "server/api/known_fields.h"
#include "server/api/parse_common.h"
#include "text/base64.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

// What chat_template_kwargs say of it goes first.
void set_variable(OrderedJson& variables, const char* name, OrderedJson value) {
  if (!variables.contains(name)) variables[name] = std::move(value);
}

// What a part of a message holds of thoughts: OpenRouter's reasoning.text and reasoning.summary, Mistral's and
// Anthropic's thinking.
std::string thought_of(const Fields& part) {
  const std::string type = part.text("type").value_or("");
  if (type == "thinking" || type.starts_with("reasoning")) refuse_unknown_fields(part, PartKind::kThoughtPart);
  if (type == "reasoning.summary") return part.text("summary").value_or("");
  if (type == "reasoning.text" || type == "reasoning") return part.text("text").value_or("");
  if (type != "thinking") return {};
  const Json* thinking = part.find("thinking");
  return thinking == nullptr ? std::string() : content_text(*thinking, part.path("thinking"));
}

constexpr std::string_view kSeal = "kvasir:";

// Of what others sealed nothing can be read.
std::string unsealed(const OrderedJson& item) {
  const auto sealed = item.find("encrypted_content");
  if (sealed == item.end() || !sealed->is_string()) return {};
  const std::string_view text = sealed->get_ref<const std::string&>();
  if (!text.starts_with(kSeal)) return {};
  return to_valid_utf8(decode_base64(text.substr(kSeal.size())).value_or(""));
}

// Templates know the switch by one of two names.
void switch_thinking(ChatRequest& request, const OrderedJson& on) {
  set_variable(request.variables, "enable_thinking", on);
  set_variable(request.variables, "thinking", on);
}

}  // namespace

void read_effort(const Fields& fields, const std::string& name, ChatRequest& request) {
  const auto effort = fields.text(name);
  if (!effort) return;
  if (effort->size() > 32) bad_param(fields.path(name), fields.path(name) + " must be a word like \"low\"");
  if (*effort == "none") {
    switch_thinking(request, false);
  } else {
    set_variable(request.variables, "reasoning_effort", *effort);
  }
}

void read_openai_reasoning(const Fields& fields, ChatRequest& request) {
  read_effort(fields, "reasoning_effort", request);
  read_responses_reasoning(fields, request);
  read_anthropic_thinking(fields, request);
  if (const auto on = fields.boolean("enable_thinking")) switch_thinking(request, *on);
  if (const auto budget = fields.integer("thinking_budget", {0, 1 << 30}))
    set_variable(request.variables, "thinking_budget", *budget);
  if (const auto show = fields.boolean("include_reasoning")) request.options.show_reasoning = *show;
}

void read_responses_reasoning(const Fields& fields, ChatRequest& request) {
  const std::optional<Fields> reasoning = fields.object("reasoning");
  if (!reasoning) return;
  // Which thoughts of earlier turns are shown, and how many models think at once, are for the template and nobody.
  for (const char* name : {"context", "mode"}) {
    const auto word = reasoning->text(name);
    if (word && *word != "auto" && *word != "standard")
      not_supported(reasoning->path(name), reasoning->path(name) + " is not supported; leave it out");
  }
  refuse_unknown_fields(*reasoning, PartKind::kReasoning);
  for (const char* name : {"summary", "generate_summary"}) reasoning->text(name);  // thoughts come whole
  read_effort(*reasoning, "effort", request);
  if (const auto on = reasoning->boolean("enabled")) switch_thinking(request, *on);
  if (const auto budget = reasoning->integer("max_tokens", {0, 1 << 30}))
    set_variable(request.variables, "thinking_budget", *budget);
  if (reasoning->boolean("exclude").value_or(false)) request.options.show_reasoning = false;
}

void read_anthropic_thinking(const Fields& fields, ChatRequest& request) {
  const std::optional<Fields> thinking = fields.object("thinking");
  if (!thinking) return;
  const std::string type = thinking->required_text("type");
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    bad_param(thinking->path("type"),
              fmt::format("the type \"{}\" is none of enabled, adaptive, disabled", excerpt(type, 40)));
  }
  refuse_unknown_fields(*thinking, PartKind::kThinking);
  switch_thinking(request, type != "disabled");
  if (const auto clear = thinking->boolean("clear_thinking"))  // GLM's
    set_variable(request.variables, "clear_thinking", *clear);
  if (const auto budget = thinking->integer("budget_tokens", {0, 1 << 30}))
    set_variable(request.variables, "thinking_budget", *budget);
  const std::string display = thinking->text("display").value_or("summarized");
  if (display != "summarized" && display != "updates" && display != "omitted")
    bad_param(thinking->path("display"), thinking->path("display") + " must be summarized, updates or omitted");
  request.options.show_reasoning = display != "omitted";
}

void read_ollama_think(const Fields& fields, ChatRequest& request) {
  const Json* think = fields.find("think");
  if (think == nullptr) return;
  if (think->is_string()) {
    read_effort(fields, "think", request);
  } else {
    switch_thinking(request, *fields.boolean("think"));
  }
}

std::optional<std::string> reasoning_of(const Fields& message) {
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    if (auto text = message.text(name); text && !text->empty()) return text;
  }
  std::string text;
  for (const char* list : {"reasoning_details", "content"}) {
    const Json* parts = message.find(list);
    if (parts == nullptr || !parts->is_array()) continue;
    for (size_t i = 0; i < parts->size(); ++i)
      text += thought_of(Fields((*parts)[i], fmt::format("{}[{}].", message.path(list), i)));
    if (!text.empty()) return text;
  }
  return std::nullopt;
}

std::string reasoning_item_text(const OrderedJson& item) {
  std::string text;
  for (const char* list : {"content", "summary"}) {
    if (!item.contains(list) || !item[list].is_array()) continue;
    for (const OrderedJson& part : item[list]) {
      if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) continue;
      if (!text.empty()) text += "\n\n";
      text += part["text"].get<std::string>();
    }
    if (!text.empty()) break;
  }
  return text.empty() ? unsealed(item) : text;
}

std::string sealed_reasoning(const std::string& text) { return std::string(kSeal) + encode_base64(text); }

}  // namespace kvasir
