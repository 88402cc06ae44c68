#include "text/decode_stream.h"

#include "text/tokenizer_data.h"

namespace kvasir {

using Place = Decoder::Place;

DecodeStream::DecodeStream(Tokenizer tokenizer, Tokenizer::SkipSpecials specials, Begins begins)
    : tokenizer_(std::move(tokenizer)),
      specials_(specials),
      begins_(begins),
      text_(*tokenizer_.data_->decoder, begins),
      begun_(begins == Begins::kEarlier) {}

void DecodeStream::give(std::string_view text, std::string& out) {
  if (tokenizer_.data_->decoder->on_text().empty()) {
    out += text;
  } else {
    out += text_.push(text);
  }
}

std::string DecodeStream::text_of(TokenId token, Place place) const {
  const TokenizerData::Token& known = tokenizer_.data_->tokens[static_cast<size_t>(token)];
  return tokenizer_.data_->decoder->text_of(known.spelled, known.kind, place);
}

void DecodeStream::push(TokenId token, std::string& out) {
  const TokenizerData& data = *tokenizer_.data_;
  if (token < 0 || static_cast<size_t>(token) >= data.tokens.size()) return;
  const TokenizerData::Token& known = data.tokens[static_cast<size_t>(token)];
  if (!known.exists || (known.special && specials_ == Tokenizer::SkipSpecials::kSkip)) return;
  const bool repeated = data.decoder->drops_repeats() && token == newest_;
  newest_ = token;
  if (repeated) return;
  if (data.decoder->minds_last()) {
    if (held_ >= 0) give(text_of(held_, begun_ ? Place::kMiddle : Place::kFirst), out);
    begun_ |= held_ >= 0;
    held_ = token;
    return;
  }
  if (begun_ || !data.decoder->minds_first()) {
    give(known.bytes, out);
  } else {
    give(text_of(token, Place::kFirst), out);
  }
  begun_ = true;
}

void DecodeStream::finish(std::string& out) {
  if (held_ >= 0) give(text_of(held_, begun_ ? Place::kLast : Place::kOnly), out);
  out += text_.finish();
  text_ = TextStream(*tokenizer_.data_->decoder, begins_);
  begun_ = begins_ == Begins::kEarlier;
  held_ = newest_ = -1;
}

}  // namespace kvasir
