#include "api/reranker.h"

#include <string>
#include <utility>

#include "model/families/family.h"
#include "model/gguf/gguf_model.h"

namespace kvasir {
namespace {

// A text of the file's own; it may name no instruction.
std::optional<std::string> text_in_gguf(const std::filesystem::path& model) {
  const auto gguf = find_gguf(model);
  if (!gguf) return std::nullopt;
  const auto text = GgufModel(*gguf).text_if("tokenizer.chat_template.rerank");
  return text ? std::optional(std::string(*text)) : std::nullopt;
}

bool knows_pairs(const std::string& chat_template) {
  return chat_template.find("query") != std::string::npos && chat_template.find("document") != std::string::npos;
}

// Whether the family's text is one for this tokenizer: whether its first special token is a token.
bool fits(std::string_view text, const Tokenizer& tokenizer) {
  const size_t end = text.find("|>");
  return end != std::string_view::npos && tokenizer.id_of(text.substr(0, end + 2)).has_value();
}

PairPrompt prompt_of(const std::filesystem::path& model, const ModelSpec& spec, const Tokenizer& tokenizer,
                     const std::optional<ChatTemplate>& chat) {
  if (const auto text = text_in_gguf(model)) return {tokenizer, *text};
  if (chat && spec.rerank.yes >= 0 && knows_pairs(tokenizer.chat_template().value_or(""))) return {tokenizer, *chat};
  const std::string_view text = spec.family->rerank.text;
  if (!text.empty() && fits(text, tokenizer)) return {tokenizer, std::string(text)};
  return PairPrompt(tokenizer);
}

}  // namespace

std::optional<Reranker> make_reranker(const std::filesystem::path& model, ModelSpec spec, const Tokenizer& tokenizer,
                                      const std::optional<ChatTemplate>& chat) {
  if (!spec.rerank.ranks()) return std::nullopt;
  PairPrompt prompt = prompt_of(model, spec, tokenizer, chat);
  if (spec.rerank.kind == RerankSpec::Kind::kTokens && spec.rerank.yes < 0) {
    spec.rerank.yes = tokenizer.id_of("yes").value_or(-1);
    spec.rerank.no = tokenizer.id_of("no").value_or(-1);
    if (spec.rerank.yes < 0 || spec.rerank.no < 0 || !prompt.takes_text()) return std::nullopt;
  }
  return Reranker{std::move(prompt), RerankHead(model, spec)};
}

}  // namespace kvasir
