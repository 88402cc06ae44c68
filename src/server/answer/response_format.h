// Answers that keep to JSON or a schema: what ties grammar/ to a served model and to the sampler.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "grammar/compiled_cache.h"
#include "grammar/token_mask.h"
#include "sample/constraint.h"
#include "server/api/api_types.h"
#include "text/tokenizer.h"

namespace kvasir {

// All forms of one model's answers. Any thread may ask for one; what it gets is then the engine's alone.
class ResponseFormats {
 public:
  // `ends` are the tokens that end an answer.
  ResponseFormats(Tokenizer tokenizer, std::vector<TokenId> ends);

  // Null: any text. Throws ApiError, blaming form.param, for a schema that is bad, not supported or too large.
  std::shared_ptr<const TokenConstraint> constraint(const ResponseFormat& format);
  std::shared_ptr<const grammar::Vocabulary> vocabulary();  // special tokens have no bytes in it

 private:
  std::shared_ptr<grammar::TokenMasker> masker();

  Tokenizer tokenizer_;
  std::vector<TokenId> ends_;
  grammar::GrammarCache grammars_;
  std::once_flag once_;
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;
  std::shared_ptr<grammar::TokenMasker> masker_;  // made when first asked for: most servers never are
};

}  // namespace kvasir
