#include "server/api/logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/utf8.h"

namespace kvasir {
namespace {

// JSON has no infinity, and this is how OpenAI says "next to impossible".
double told(float logprob) { return std::max(static_cast<double>(logprob), -9999.0); }

OrderedJson chance(const TokenChance& one) {
  OrderedJson bytes = OrderedJson::array();
  for (const char c : one.bytes) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", to_valid_utf8(one.bytes)}, {"logprob", told(one.logprob)}, {"bytes", std::move(bytes)}};
}

std::string spelled(const TokenChance& one) {
  if (valid_run(one.bytes, 0) == one.bytes.size()) return one.bytes;
  std::string out = "bytes:";
  for (const char c : one.bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace

OrderedJson logprob_list(std::span<const AnswerToken> tokens) {
  OrderedJson out = OrderedJson::array();
  for (const AnswerToken& token : tokens) {
    OrderedJson one = chance(token.chosen);
    one["top_logprobs"] = OrderedJson::array();
    for (const TokenChance& top : token.top) one["top_logprobs"].push_back(chance(top));
    out.push_back(std::move(one));
  }
  return out;
}

OrderedJson chat_logprobs(std::span<const AnswerToken> tokens) {
  return {{"content", logprob_list(tokens)}, {"refusal", nullptr}};
}

OrderedJson completion_logprobs(std::span<const AnswerToken> tokens) {
  OrderedJson out{{"tokens", OrderedJson::array()},
                  {"token_logprobs", OrderedJson::array()},
                  {"top_logprobs", OrderedJson::array()},
                  {"text_offset", OrderedJson::array()}};
  for (const AnswerToken& token : tokens) {
    out["tokens"].push_back(spelled(token.chosen));
    out["token_logprobs"].push_back(told(token.chosen.logprob));
    OrderedJson top = OrderedJson::object();
    for (const TokenChance& one : token.top) top[spelled(one)] = told(one.logprob);
    top[spelled(token.chosen)] = told(token.chosen.logprob);
    out["top_logprobs"].push_back(std::move(top));
    out["text_offset"].push_back(token.offset);
  }
  return out;
}

}  // namespace kvasir
