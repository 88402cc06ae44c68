#include "server/answer/reasoning_prompt.h"

#include <algorithm>
#include <array>

namespace kvasir {
namespace {

bool says_any(const std::string& source, std::span<const std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return source.find(word) != std::string::npos; });
}

ReasoningDialect::Read where_read(const std::string& source, const ReasoningFormat* format) {
  using Read = ReasoningDialect::Read;
  static constexpr std::array<std::string_view, 1> kOurs{"reasoning_content"};
  static constexpr std::array<std::string_view, 5> kThinking{"message.thinking", "message['thinking']",
                                                             "message[\"thinking\"]", "msg.thinking", "m.thinking"};
  static constexpr std::array<std::string_view, 2> kParts{"block['thinking']", "block.thinking"};
  if (says_any(source, kOurs)) return Read::kReasoningContent;
  if (says_any(source, kThinking)) return Read::kThinking;
  return format != nullptr && says_any(source, kParts) ? Read::kParts : Read::kNowhere;
}

std::string_view without_space_behind(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

void put_thoughts(OrderedJson& message, std::string thoughts, ReasoningDialect::Read read) {
  using Read = ReasoningDialect::Read;
  if (read == Read::kParts) {
    OrderedJson parts = OrderedJson::array({{{"type", "thinking"}, {"thinking", std::move(thoughts)}}});
    if (message["content"] != "") parts.push_back({{"type", "text"}, {"text", message["content"]}});
    message["content"] = std::move(parts);
  } else if (read == Read::kThinking) {
    // gpt-oss' template takes one of both beside a call.
    if (message.contains("tool_calls") && message["content"] != "") {
      thoughts += "\n\n" + message["content"].get<std::string>();
      message["content"] = "";
    }
    message["thinking"] = std::move(thoughts);
  }
}

}  // namespace

ReasoningDialect reasoning_dialect(const Tokenizer& tokenizer, const std::string& name) {
  ReasoningDialect dialect;
  const std::string source = tokenizer.chat_template().value_or("");
  if (name.empty()) {
    dialect.format = reasoning_format_of(source);
  } else if (name != "none") {
    dialect.format = find_reasoning_format(name);
  }
  dialect.read = where_read(source, dialect.format);
  if (dialect.format == nullptr) return dialect;
  for (const std::string_view token : dialect.format->tokens) {
    const std::optional<TokenId> id = tokenizer.id_of(token);
    if (id && tokenizer.is_special(*id)) dialect.marks.push_back(*id);
  }
  if (dialect.format->kind == ReasoningFormat::Kind::kMarks) {
    dialect.open = tokenizer.id_of(dialect.format->open);
    dialect.close = tokenizer.id_of(dialect.format->close);
  }
  const std::string_view opening =
      dialect.format->kind == ReasoningFormat::Kind::kMarks ? dialect.format->open : dialect.format->tokens[1];
  const std::vector<TokenId> tokens = tokenizer.encode(opening, Tokenizer::Specials::kParse);
  if (!tokens.empty()) dialect.openers.push_back(tokens.front());
  return dialect;
}

PromptEnd end_of_prompt(std::span<const Piece> pieces, const ReasoningFormat& format) {
  if (format.kind == ReasoningFormat::Kind::kChannels || pieces.empty()) return PromptEnd::kSaysNothing;
  if (pieces.back().origin != Origin::kTemplate) return PromptEnd::kSaysNothing;
  const std::string_view end = without_space_behind(pieces.back().text);
  if (end.ends_with(without_space_behind(format.open))) return PromptEnd::kOpens;
  return end.ends_with(format.close) ? PromptEnd::kCloses : PromptEnd::kSaysNothing;
}

OrderedJson messages_with_reasoning(OrderedJson messages, const ReasoningDialect& dialect) {
  if (dialect.read == ReasoningDialect::Read::kReasoningContent) return messages;
  for (OrderedJson& message : messages) {
    const auto found = message.find("reasoning_content");
    if (found == message.end()) continue;
    auto thoughts = found->get<std::string>();
    message.erase("reasoning_content");
    put_thoughts(message, std::move(thoughts), dialect.read);
  }
  return messages;
}

std::optional<size_t> kept_by_next_turn(const OrderedJson& messages, const std::string& prompt,
                                        const RenderMessages& render) {
  // Words that no prompt has, so that they are found only where the template puts them.
  static constexpr std::string_view kThought = "\uE5F0 thought \uE5F1";
  OrderedJson next = messages;
  next.push_back({{"role", "assistant"}, {"content", "\uE5F2"}, {"reasoning_content", kThought}});
  next.push_back({{"role", "user"}, {"content", "\uE5F3"}});
  const std::optional<std::string> text = render(next);
  if (!text || text->find(kThought) != std::string::npos) return std::nullopt;
  const auto [at, unused] = std::ranges::mismatch(prompt, *text);
  return static_cast<size_t>(at - prompt.begin());
}

}  // namespace kvasir
