// Where messages and breakpoints are in a prompt's tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/answer/text_offsets.h"
#include "server/api/cache_breakpoints.h"

namespace kvasir {

struct MessageSpan {
  std::optional<size_t> index;  // among the request's messages; nullopt: it stands outside of them
  std::string role;
  std::int64_t begin = 0;  // its content's tokens
  std::int64_t end = 0;
};

struct PromptMap {
  std::vector<Breakpoint> breakpoints;  // ascending, none twice, none empty
  std::vector<MessageSpan> messages;    // in the order of the prompt
};

struct MapRequest {
  const Json& body;  // with "messages" or "input"; "system", "instructions" and "prompt" are messages too
  std::span<const CacheBreakpoint> breakpoints;
  enum class Messages { kSkip, kFind } messages = Messages::kSkip;
};

// What `render` makes of the body as it is.
struct RenderedPrompt {
  std::span<const Piece> pieces;
  std::span<const TokenId> tokens;
};

PromptMap map_prompt(const Tokenizer& tokenizer, const MapRequest& asked, const RenderedPrompt& rendered,
                     const RenderBody& render);

// Keeps them ascending, and none twice.
void add_breakpoint(std::vector<Breakpoint>& breakpoints, Breakpoint one);

// The assistant's turn that begins at this token without what was thought before it, where a token of its thoughts
// could have stood: nullopt if none does.
struct ThoughtlessTurn {
  size_t index = 0;      // among the request's messages
  std::int64_t end = 0;  // tokens up to the end of the last turn of the assistant's
};
std::optional<ThoughtlessTurn> turn_without_thoughts(std::span<const MessageSpan> messages, std::int64_t token);

// {index, role, part} of the message in which this token is: in its "content", or in what the "template" puts before
// it. Null: after the last one.
OrderedJson message_at(std::span<const MessageSpan> messages, std::int64_t token);

}  // namespace kvasir
