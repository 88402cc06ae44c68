// A model's chat template: messages -> the text of a prompt, with a mark on what the request brought.
//
// Templates are Jinja, run as the transformers library runs them (trim_blocks, lstrip_blocks, loop controls,
// tojson without escaping). Text that came from the messages, the tools or the variables keeps its origin
// through every operation of the template, so that a user's "<|im_end|>" stays text while the template's own
// is a token.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "text/jinja/limits.h"
#include "text/origin.h"
#include "text/tokenizer.h"

namespace kvasir {

namespace jinja {
struct Template;
}

struct ChatMessage {
  std::string role;
  std::string content;
};

struct Piece {
  std::string text;
  Origin origin = Origin::kTemplate;

  friend bool operator==(const Piece&, const Piece&) = default;
};

enum class GenerationPrompt { kNone, kAdd };  // whether the prompt ends where the assistant's answer begins

struct RenderOptions {
  GenerationPrompt generation_prompt = GenerationPrompt::kAdd;
  std::string bos_token;
  std::string eos_token;
  nlohmann::ordered_json tools;                                         // null: none
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  // enable_thinking and the like
  std::optional<std::time_t> now;                                       // for strftime_now; nullopt: the clock's time
  RenderLimits limits;
};

class ChatTemplate {
 public:
  // Parses. `where` names the template in errors. Throws Error for what is not Jinja or not supported.
  ChatTemplate(std::string_view source, std::string where);

  // Neighbouring pieces differ in origin; none is empty. Throws Error when the template refuses the messages
  // (raise_exception), fails, or goes beyond the limits. Roles that every API knows ("user", "tool", …) count
  // as the template's text, since templates build tokens from them; everything else in `messages` is the
  // user's.
  std::vector<Piece> render(const nlohmann::ordered_json& messages, const RenderOptions& options) const;
  std::vector<Piece> render(std::span<const ChatMessage> messages, const RenderOptions& options) const;

 private:
  std::shared_ptr<const jinja::Template> template_;
};

// The prompt's tokens: special tokens are found in the template's text only, while ordinary text merges
// across the borders of pieces as if it were one.
std::vector<TokenId> encode_chat(const Tokenizer& tokenizer, std::span<const Piece> pieces);

// The pieces as one string.
std::string text_of(std::span<const Piece> pieces);

}  // namespace kvasir
