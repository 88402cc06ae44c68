#include "server/answer/response_format.h"

#include <algorithm>
#include <string>
#include <utility>

#include "grammar/constraint.h"
#include "server/api/api_error.h"

namespace kvasir {
namespace {

class FormConstraint : public TokenConstraint {
 public:
  explicit FormConstraint(grammar::GrammarConstraint inner) : inner_(std::move(inner)) {}

  bool prepare(std::size_t& work) override { return inner_.prepare(work); }
  void mask(std::span<float> logits) override { inner_.mask(logits); }
  void accept(TokenId token) override { inner_.accept(token); }
  std::size_t allowed(std::span<const TokenId> tokens) const override { return inner_.allowed(tokens); }
  bool ended() const override { return inner_.ended(); }
  std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<FormConstraint>(inner_.apart()); }

 private:
  grammar::GrammarConstraint inner_;
};

}  // namespace

ResponseFormats::ResponseFormats(Tokenizer tokenizer, std::vector<TokenId> ends)
    : tokenizer_(std::move(tokenizer)), ends_(std::move(ends)) {}

std::shared_ptr<grammar::TokenMasker> ResponseFormats::masker() {
  std::call_once(once_, [this] {
    const auto named = static_cast<size_t>(tokenizer_.vocab_size());
    std::vector<std::string> tokens(std::max(named, static_cast<size_t>(*std::ranges::max_element(ends_)) + 1));
    for (size_t i = 0; i < named; ++i) {
      const auto id = static_cast<TokenId>(i);
      if (!tokenizer_.is_special(id)) tokens[i] = tokenizer_.bytes_of(id);
    }
    vocabulary_ = std::make_shared<const grammar::Vocabulary>(std::move(tokens), ends_);
    masker_ = std::make_shared<grammar::TokenMasker>(vocabulary_);
  });
  return masker_;
}

std::shared_ptr<const grammar::Vocabulary> ResponseFormats::vocabulary() {
  masker();
  return vocabulary_;
}

std::shared_ptr<const TokenConstraint> ResponseFormats::constraint(const ResponseFormat& format) {
  if (format.kind == ResponseFormat::Kind::kText) return nullptr;
  if (ends_.empty())
    bad_param(format.param, format.param + " needs a model that has a token for the end of an answer");
  try {
    auto rules = format.kind == ResponseFormat::Kind::kJsonObject ? grammars_.json_object()
                                                                  : grammars_.json_schema(format.schema);
    return std::make_shared<FormConstraint>(grammar::GrammarConstraint(std::move(rules), masker()));
  } catch (const Error& error) {
    bad_param(format.param, format.param + ": " + error.what());
  }
}

}  // namespace kvasir
