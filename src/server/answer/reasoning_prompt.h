// How the served model thinks, and what becomes of its thoughts on their way into a prompt.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/answer/formats/reasoning_formats.h"
#include "server/api/json_fields.h"
#include "text/chat_template.h"

namespace kvasir {

struct ReasoningDialect {
  // Where a template looks for the thoughts of an assistant's message.
  enum class Read { kNowhere, kReasoningContent, kThinking, kParts };  // kParts: blocks of the content

  const ReasoningFormat* format = nullptr;  // null: none that is known
  Read read = Read::kNowhere;
  std::vector<TokenId> marks{};    // special tokens that it is written with
  std::vector<TokenId> openers{};  // tokens that thoughts may begin with, where the cache has them
  std::optional<TokenId> open{};   // the marks, where each is one token
  std::optional<TokenId> close{};
};

// By what the chat template says, or by the name of a format; "none": the answer is all text. REQUIRES: the name is
// one that find_reasoning_format() knows, "none" or empty.
ReasoningDialect reasoning_dialect(const Tokenizer& tokenizer, const std::string& name);

// What the end of a prompt says of the thoughts to come: that they begin, or that there are none.
enum class PromptEnd { kSaysNothing, kOpens, kCloses };
PromptEnd end_of_prompt(std::span<const Piece> pieces, const ReasoningFormat& format);

// The messages as the template takes them: "reasoning_content" goes where it looks, or nowhere.
OrderedJson messages_with_reasoning(OrderedJson messages, const ReasoningDialect& dialect);

// The bytes of `prompt` that a next turn will begin with, if the template leaves out by then what was thought until
// now; nullopt: it keeps it, or cannot be asked. `render` makes a prompt's text of messages.
using RenderMessages = std::function<std::optional<std::string>(const OrderedJson& messages)>;
std::optional<size_t> kept_by_next_turn(const OrderedJson& messages, const std::string& prompt,
                                        const RenderMessages& render);

}  // namespace kvasir
