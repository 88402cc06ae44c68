#include "server/answer/prompt_map.h"

#include <algorithm>

namespace kvasir {
namespace {

using Pointer = Json::json_pointer;

struct Found {
  MessageSpan span;
  TextEnds ends;
};

std::vector<Found> messages_in(const Json& body) {
  std::vector<Found> out;
  const auto add = [&](const Json& message, const Pointer& at, std::optional<size_t> index, std::string role) {
    if (const auto ends = texts_of(message, at)) out.push_back({{index, std::move(role)}, *ends});
  };
  for (const char* name : {"system", "instructions"}) {
    if (body.contains(name)) add(body[name], Pointer() / name, std::nullopt, "system");
  }
  if (body.contains("prompt")) add(body["prompt"], Pointer() / "prompt", std::nullopt, "user");
  for (const char* name : {"messages", "input"}) {
    if (!body.contains(name) || !body[name].is_array()) continue;
    for (size_t i = 0; i < body[name].size(); ++i) {
      const Json& message = body[name][i];
      if (!message.is_object()) continue;
      const auto role = message.find("role");
      const bool thoughts = message.contains("type") && message["type"] == "reasoning";
      add(message, Pointer() / name / i, i,
          role != message.end() && role->is_string() ? role->get<std::string>()
          : thoughts                                 ? "assistant"
                                                     : "tool");
    }
  }
  return out;
}

std::string unused_name(const Json& tools) {
  std::string name = "x";
  while (std::ranges::any_of(tools, [&](const Json& tool) { return tool.value("name", "") == name; })) name += "x";
  return name;
}

// Where the tools up to this one end: from there on the prompt with other tools after it differs.
std::optional<size_t> end_of_tool(const Json& body, size_t tool, const std::string& prompt,
                                  const RenderBody& render) {
  Json other = body;
  Json& tools = other["tools"];
  if (tool + 1 < tools.size()) {
    tools.erase(tools.begin() + static_cast<std::ptrdiff_t>(tool) + 1, tools.end());
  } else {
    tools.push_back(tools[tool]);
    tools.back()["name"] = unused_name(body["tools"]);
  }
  const std::optional<std::string> text = try_render(render, other);
  if (!text) return std::nullopt;
  const auto [at, unused] = std::ranges::mismatch(prompt, *text);
  if (at == prompt.end()) return std::nullopt;  // the template does not show the tools
  return static_cast<size_t>(at - prompt.begin());
}

}  // namespace

void add_breakpoint(std::vector<Breakpoint>& breakpoints, Breakpoint one) {
  if (one.tokens == 0) return;
  const auto at = std::ranges::lower_bound(breakpoints, one.tokens, {}, &Breakpoint::tokens);
  if (at != breakpoints.end() && at->tokens == one.tokens) {
    at->keep = std::max(at->keep, one.keep);
  } else {
    breakpoints.insert(at, one);
  }
}

PromptMap map_prompt(const Tokenizer& tokenizer, const MapRequest& asked, const RenderedPrompt& rendered,
                     const RenderBody& render) {
  const std::string prompt = text_of(rendered.pieces);
  const TokenOffsets offsets(tokenizer, rendered.pieces, rendered.tokens);
  std::vector<Found> messages;
  // Without a place for each token every message would cost a tokenization.
  if (asked.messages == MapRequest::Messages::kFind && offsets.exact()) messages = messages_in(asked.body);
  std::vector<TextMark> marks;
  for (const CacheBreakpoint& breakpoint : asked.breakpoints) {
    if (!breakpoint.tool) marks.push_back({breakpoint.text, TextMark::Side::kEnd});
  }
  const size_t first_message = marks.size();
  for (const Found& message : messages) {
    marks.push_back({message.ends.first, TextMark::Side::kBegin});
    marks.push_back({message.ends.last, TextMark::Side::kEnd});
  }
  const std::vector<std::optional<size_t>> places = find_offsets(asked.body, marks, prompt, render);

  PromptMap map;
  size_t next = 0;
  for (const CacheBreakpoint& breakpoint : asked.breakpoints) {
    const std::optional<size_t> place =
        breakpoint.tool ? end_of_tool(asked.body, *breakpoint.tool, prompt, render) : places[next++];
    if (place) add_breakpoint(map.breakpoints, {offsets.tokens_within(*place), breakpoint.keep});
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::optional<size_t> begin = places[first_message + 2 * i];
    const std::optional<size_t> end = places[first_message + 2 * i + 1];
    if (!begin || !end) continue;
    messages[i].span.begin = offsets.tokens_within(*begin);
    messages[i].span.end = offsets.tokens_within(*end);
    map.messages.push_back(std::move(messages[i].span));
  }
  std::ranges::stable_sort(map.messages, {}, &MessageSpan::begin);
  return map;
}

std::optional<ThoughtlessTurn> turn_without_thoughts(std::span<const MessageSpan> messages, std::int64_t token) {
  std::optional<ThoughtlessTurn> out;
  std::int64_t end = 0;
  for (const MessageSpan& message : messages) {
    if (message.role == "assistant") end = std::max(end, message.end);
    if (out || token >= message.end) continue;
    if (token > message.begin || !message.index) return std::nullopt;
    const bool assistant = message.role == "assistant";
    if (!assistant && *message.index == 0) return std::nullopt;
    // A turn that is nothing but a call has no text by which it could be found: it is the one before the result.
    out = ThoughtlessTurn{*message.index - (assistant ? 0 : 1), 0};
  }
  if (out) out->end = end;
  return out;
}

OrderedJson message_at(std::span<const MessageSpan> messages, std::int64_t token) {
  for (const MessageSpan& message : messages) {
    if (token >= message.end) continue;
    return {{"index", message.index ? OrderedJson(*message.index) : OrderedJson(nullptr)},
            {"role", message.role},
            {"part", token >= message.begin ? "content" : "template"}};
  }
  return nullptr;
}

}  // namespace kvasir
