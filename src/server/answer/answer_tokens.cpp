#include "server/answer/answer_tokens.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvasir {

AnswerPiece& AnswerPiece::operator+=(AnswerPiece more) {
  text += more.text;
  std::ranges::move(more.tokens, std::back_inserter(tokens));
  return *this;
}

size_t AnswerPiece::held_bytes() const {
  size_t bytes = text.size();
  for (const AnswerToken& token : tokens) bytes += sizeof(AnswerToken) + token.top.size() * sizeof(TokenChance);
  return bytes;
}

AnswerToken describe_token(const Tokenizer& tokenizer, TokenId token, const TokenLogprobs& logprobs) {
  const auto bytes = [&](TokenId id) { return std::string(tokenizer.bytes_of(id)); };
  AnswerToken out;
  out.chosen = {bytes(token), logprobs.chosen};
  for (const TokenLogprob& top : logprobs.top) out.top.push_back({bytes(top.token), top.logprob});
  return out;
}

void PendingTokens::push(AnswerToken token, std::string_view text) {
  token.offset = characters_;
  pending_.push_back({made_, std::move(token)});
  made_ += text.size();
  characters_ += std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

std::vector<AnswerToken> PendingTokens::take(std::string_view given) {
  given_ += given.size();
  std::vector<AnswerToken> out;
  for (; !pending_.empty() && pending_.front().begin < given_; pending_.pop_front())
    out.push_back(std::move(pending_.front().token));
  return out;
}

std::vector<AnswerToken> PendingTokens::take_all() {
  std::vector<AnswerToken> out;
  for (Pending& one : pending_) out.push_back(std::move(one.token));
  pending_.clear();
  return out;
}

}  // namespace kvasir
