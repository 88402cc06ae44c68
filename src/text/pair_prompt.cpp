#include "text/pair_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace kvasir {
namespace {

constexpr std::string_view kInstruction = "{instruction}";
constexpr std::string_view kQuery = "{query}";
constexpr std::string_view kDocument = "{document}";
constexpr std::string_view kUsualInstruction =
    "Given a web search query, retrieve relevant passages that answer the query";

// How many tokens of a document may stay beside `others`.
size_t kept_of_document(std::int64_t own, std::int64_t others, const PairPrompt::Cut& cut) {
  const std::int64_t room = std::max<std::int64_t>(cut.most - others, 0);
  return static_cast<size_t>(std::min({own, cut.most_of_document, room}));
}

}  // namespace

PairPrompt::PairPrompt(Tokenizer tokenizer, std::string text)
    : tokenizer_(std::move(tokenizer)), text_(std::move(text)) {
  for (const std::string_view name : {kQuery, kDocument}) {
    const size_t at = text_.find(name);
    if (at == std::string::npos || text_.find(name, at + 1) != std::string::npos)
      fail_input(fmt::format("the text for pairs does not have {} once", name), "rerank template");
  }
}

PairPrompt::PairPrompt(Tokenizer tokenizer, ChatTemplate chat)
    : tokenizer_(std::move(tokenizer)), chat_(std::move(chat)) {}

bool PairPrompt::takes_instruction() const { return text_.find(kInstruction) != std::string::npos; }

// The text's own parts, and between them what was asked.
std::vector<Piece> PairPrompt::pieces(const Asked& asked) const {
  if (chat_) {
    const std::vector<ChatMessage> messages{{"query", std::string(asked.query)},
                                            {"document", std::string(asked.document)}};
    RenderOptions options;
    options.bos_token = tokenizer_.bos_token().value_or("");
    options.eos_token = tokenizer_.eos_token().value_or("");
    return chat_->render(messages, options);
  }
  const std::array<std::pair<std::string_view, std::string_view>, 3> names{
      {{kInstruction, asked.instruction.value_or(kUsualInstruction)},
       {kQuery, asked.query},
       {kDocument, asked.document}}};
  std::vector<Piece> out;
  std::string_view left = text_;
  while (!left.empty()) {
    size_t at = left.size();
    std::pair<std::string_view, std::string_view> next;
    for (const auto& one : names) {
      const size_t found = left.find(one.first);
      if (found >= at) continue;
      at = found;
      next = one;
    }
    if (at > 0) out.push_back({std::string(left.substr(0, at)), Origin::kTemplate});
    if (next.first.empty()) break;
    out.push_back({std::string(next.second), Origin::kUser});
    left.remove_prefix(at + next.first.size());
  }
  return out;
}

// Pieces merge across their borders, as they do where the model was trained. A document that is cut ends at a token,
// and what follows it begins anew.
Tokenizer::Pair PairPrompt::tokens_of(std::span<const Piece> pieces, const Cut& cut) const {
  const auto encoded = [this](std::span<const Piece> some) { return encode_chat(tokenizer_, some); };
  Tokenizer::Pair out{encoded(pieces), {}};
  const auto document = std::ranges::find(pieces.rbegin(), pieces.rend(), Origin::kUser, &Piece::origin);
  const bool limited = cut.most_of_document != INT64_MAX || std::ssize(out.tokens) > cut.most;
  if (document == pieces.rend() || !limited) return out;
  const auto end = static_cast<size_t>(pieces.rend() - document);
  std::vector<TokenId> head = encoded(pieces.first(end));
  const std::vector<TokenId> tail = encoded(pieces.subspan(end));
  const std::int64_t before = std::ssize(encoded(pieces.first(end - 1)));
  const std::int64_t own = std::max<std::int64_t>(std::ssize(head) - before, 0);
  const size_t kept = kept_of_document(own, before + std::ssize(tail), cut);
  if (kept == static_cast<size_t>(own)) return out;
  head.resize(static_cast<size_t>(before) + kept);
  head.insert(head.end(), tail.begin(), tail.end());
  return {std::move(head), {}};
}

Tokenizer::Pair PairPrompt::tokens(const Asked& asked, const Cut& cut) const {
  if (takes_text()) return tokens_of(pieces(asked), asked.document.empty() ? Cut{} : cut);
  const std::vector<TokenId> query = tokenizer_.encode(asked.query, Tokenizer::Specials::kPlain);
  std::vector<TokenId> document = tokenizer_.encode(asked.document, Tokenizer::Specials::kPlain);
  const std::int64_t around = std::ssize(tokenizer_.as_pair({}, {}).tokens);
  document.resize(kept_of_document(std::ssize(document), std::ssize(query) + around, cut));
  return tokenizer_.as_pair(query, document);
}

}  // namespace kvasir
