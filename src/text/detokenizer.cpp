#include "text/detokenizer.h"

#include "text/utf8.h"

namespace kvasir {

std::string Detokenizer::push(TokenId token) {
  if (specials_ == Tokenizer::SkipSpecials::kSkip && tokenizer_.is_special(token)) return {};
  std::string_view bytes = tokenizer_.bytes_of(token);
  for (; to_drop_ > 0 && bytes.starts_with(' '); --to_drop_) bytes.remove_prefix(1);
  if (!bytes.empty()) to_drop_ = 0;
  held_ += bytes;
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
  // What is held is the beginning of one character, so one replacement stands for all of it.
  std::string out(held_.empty() ? std::string_view{} : kReplacement);
  held_.clear();
  to_drop_ = leading_;
  return out;
}

std::string detokenize(const Tokenizer& tokenizer, std::span<const TokenId> tokens,
                       Tokenizer::SkipSpecials specials) {
  return to_valid_utf8(tokenizer.decode(tokens, specials));
}

}  // namespace kvasir
