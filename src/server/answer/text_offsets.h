// Where the texts of a request lie in its prompt, whatever the chat template makes of them.
//
// A template is a program: it may trim, move, wrap, repeat or drop what it is given. So the request is read and
// rendered a second time with marks in its texts, and the marks are looked for in what comes out. Taken out again
// they leave the first prompt; where they do not, because the template looked at a text that now had a mark in it,
// only the part that is the same in both is believed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "server/api/json_fields.h"
#include "text/chat_template.h"

namespace kvasir {

// One end of a text in a request's body.
struct TextMark {
  enum class Side { kBegin, kEnd };
  Json::json_pointer text;  // of a string
  Side side = Side::kEnd;
};

using RenderBody = std::function<std::vector<Piece>(const Json& body)>;

// The text of a changed body's prompt; nullopt: the changes made it one that is refused.
std::optional<std::string> try_render(const RenderBody& render, const Json& body);

// For each mark, how many bytes of the prompt's text come before it; nullopt: its text is not in the prompt. `prompt`
// is what `render` makes of `body`.
std::vector<std::optional<size_t>> find_offsets(const Json& body, std::span<const TextMark> marks,
                                                const std::string& prompt, const RenderBody& render);

// Bytes of a prompt's text to tokens.
class TokenOffsets {
 public:
  TokenOffsets(const Tokenizer& tokenizer, std::span<const Piece> pieces, std::span<const TokenId> tokens);

  // How many of the prompt's first tokens lie wholly within its first `bytes`.
  std::int64_t tokens_within(size_t bytes) const;
  bool exact() const {
    return !ends_.empty();
  }  // every token has its place; otherwise a prefix is tokenized by itself

 private:
  const Tokenizer& tokenizer_;
  std::span<const Piece> pieces_;
  std::span<const TokenId> tokens_;
  std::vector<size_t> ends_;  // of each token; empty: a normalizer changed the text
};

// Whether this is a string that a mark can be put into.
bool has_text(const Json& json);

// The pointers to the first and the last text of a message or an item, whatever its parts; nullopt: it has none.
struct TextEnds {
  Json::json_pointer first;
  Json::json_pointer last;
};
std::optional<TextEnds> texts_of(const Json& message, const Json::json_pointer& at);

}  // namespace kvasir
