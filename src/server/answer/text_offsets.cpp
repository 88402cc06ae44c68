#include "server/answer/text_offsets.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/error.h"

namespace kvasir {
namespace {

// A mark is a number between two characters that nobody writes: from the private use area.
constexpr char32_t kFirstBracket = 0xE5D0;
constexpr char32_t kLastBracket = 0xE5EF;

std::string character(char32_t code) {
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// One that the prompt does not have.
std::optional<std::string> free_bracket(const std::string& prompt) {
  for (char32_t code = kFirstBracket; code <= kLastBracket; ++code) {
    std::string bracket = character(code);
    if (prompt.find(bracket) == std::string::npos) return bracket;
  }
  return std::nullopt;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Where in a text its mark goes: inside the white space around it, which templates like to trim.
size_t place_in(std::string_view text, TextMark::Side side) {
  const auto first = static_cast<size_t>(std::ranges::find_if_not(text, is_space) - text.begin());
  if (side == TextMark::Side::kBegin) return first;
  size_t end = text.size();
  while (end > first && is_space(text[end - 1])) --end;
  return end;
}

std::string marked(const std::string& text, std::span<const std::pair<size_t, std::string>> marks) {
  std::string out;
  size_t done = 0;
  for (const auto& [at, mark] : marks) {
    out.append(text, done, at - done).append(mark);
    done = at;
  }
  return out.append(text, done);
}

struct Stripped {
  std::string text;
  std::vector<std::optional<size_t>> places;  // where each mark was first met
};

Stripped strip(std::string_view text, const std::string& bracket, size_t marks) {
  Stripped out{{}, std::vector<std::optional<size_t>>(marks)};
  while (true) {
    const size_t open = text.find(bracket);
    out.text += text.substr(0, open);
    if (open == std::string_view::npos) return out;
    text.remove_prefix(open + bracket.size());
    size_t index = marks;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.starts_with(bracket)) text.remove_prefix(bracket.size());
    if (error == std::errc{} && index < marks && !out.places[index]) out.places[index] = out.text.size();
  }
}

size_t common_prefix(std::string_view a, std::string_view b) {
  const auto [at, unused] = std::ranges::mismatch(a, b);
  return static_cast<size_t>(at - a.begin());
}

}  // namespace

std::optional<std::string> try_render(const RenderBody& render, const Json& body) {
  try {
    return text_of(render(body));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<std::optional<size_t>> find_offsets(const Json& body, std::span<const TextMark> marks,
                                                const std::string& prompt, const RenderBody& render) {
  std::vector<std::optional<size_t>> none(marks.size());
  const std::optional<std::string> bracket = free_bracket(prompt);
  if (marks.empty() || !bracket) return none;
  std::map<std::string, std::vector<std::pair<size_t, std::string>>> by_text;  // each in the order of their places
  Json copy = body;
  for (size_t i = 0; i < marks.size(); ++i) {
    const auto& text = body.at(marks[i].text).get_ref<const std::string&>();
    by_text[marks[i].text.to_string()].emplace_back(place_in(text, marks[i].side),
                                                    *bracket + std::to_string(i) + *bracket);
  }
  for (auto& [pointer, here] : by_text) {
    std::ranges::stable_sort(here, {}, &std::pair<size_t, std::string>::first);
    auto& text = copy.at(Json::json_pointer(pointer)).get_ref<std::string&>();
    text = marked(text, here);
  }
  const std::optional<std::string> rendered = try_render(render, copy);
  if (!rendered) return none;
  Stripped found = strip(*rendered, *bracket, marks.size());
  const size_t same = common_prefix(found.text, prompt);
  for (size_t i = 0; i < marks.size(); ++i) {
    std::optional<size_t>& place = found.places[i];
    if (!place) continue;
    place = std::min(*place, same);
    // The white space that the mark was put before belongs to its text, unless the template has trimmed it.
    const auto& text = body.at(marks[i].text).get_ref<const std::string&>();
    const std::string_view rest = std::string_view(text).substr(place_in(text, marks[i].side));
    if (marks[i].side == TextMark::Side::kEnd && std::string_view(prompt).substr(*place).starts_with(rest))
      *place += rest.size();
  }
  return std::move(found.places);
}

TokenOffsets::TokenOffsets(const Tokenizer& tokenizer, std::span<const Piece> pieces, std::span<const TokenId> tokens)
    : tokenizer_(tokenizer), pieces_(pieces), tokens_(tokens) {
  const std::string text = text_of(pieces);
  std::string_view rest = text;
  for (const TokenId token : tokens) {
    std::string_view bytes = tokenizer.bytes_of(token);
    // A space that the tokenizer put before a text is in no text.
    if (!rest.starts_with(bytes) && bytes.starts_with(' ')) bytes.remove_prefix(1);
    if (!rest.starts_with(bytes)) break;
    rest.remove_prefix(bytes.size());
    ends_.push_back(text.size() - rest.size());
  }
  if (ends_.size() != tokens.size() || !rest.empty()) ends_.clear();
}

std::int64_t TokenOffsets::tokens_within(size_t bytes) const {
  if (!ends_.empty()) return std::ranges::upper_bound(ends_, bytes) - ends_.begin();
  std::vector<Piece> cut;
  for (const Piece& piece : pieces_) {
    if (bytes == 0) break;
    cut.push_back({piece.text.substr(0, bytes), piece.origin});
    bytes -= cut.back().text.size();
  }
  const std::vector<TokenId> alone = encode_chat(tokenizer_, cut);
  const auto [at, unused] = std::ranges::mismatch(alone, tokens_);
  return at - alone.begin();
}

// A template treats an empty text as none: a mark in it would be the first thing there.
bool has_text(const Json& json) { return json.is_string() && !json.get_ref<const std::string&>().empty(); }

std::optional<TextEnds> texts_of(const Json& message, const Json::json_pointer& at) {
  std::optional<TextEnds> out;
  if (has_text(message)) out = TextEnds{at, at};
  const auto look = [&](const Json& inner, const Json::json_pointer& pointer) {
    const std::optional<TextEnds> ends = texts_of(inner, pointer);
    if (!ends) return;
    if (!out) out = ends;
    out->last = ends->last;
  };
  if (message.is_array()) {
    for (size_t i = 0; i < message.size(); ++i) look(message[i], at / i);
  } else if (message.is_object()) {
    static constexpr std::array<const char*, 4> kTexts{"content", "text", "refusal", "output"};
    for (const char* name : kTexts) {
      if (message.contains(name)) look(message[name], at / name);
    }
  }
  return out;
}

}  // namespace kvasir
