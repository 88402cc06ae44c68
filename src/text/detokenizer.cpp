#include "text/detokenizer.h"

#include "text/utf8.h"

namespace kvasir {

std::string Detokenizer::push(TokenId token) {
  stream_.push(token, held_);
  return certain();
}

std::string Detokenizer::certain() {
  std::string out;
  size_t at = 0;
  while (at < held_.size()) {
    const Utf8Char c = utf8_at(held_, at);
    if (c.kind == Utf8Char::Kind::kPartial) break;
    const auto size = static_cast<size_t>(c.size);
    if (c.kind == Utf8Char::Kind::kWhole) {
      out.append(held_, at, size);
    } else {
      out += kReplacement;
    }
    at += size;
  }
  held_.erase(0, at);
  return out;
}

std::string Detokenizer::finish() {
  stream_.finish(held_);
  std::string out = certain();
  // What is held is the beginning of one character, so one replacement stands for all of it.
  if (!held_.empty()) out += kReplacement;
  held_.clear();
  return out;
}

std::string detokenize(const Tokenizer& tokenizer, std::span<const TokenId> tokens,
                       Tokenizer::SkipSpecials specials) {
  return to_valid_utf8(tokenizer.decode(tokens, specials));
}

}  // namespace kvasir
