// Tools beside a form: the answer is calls, which nothing holds, or it is the form from its first token on.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/vocabulary.h"
#include "sample/constraint.h"

namespace kvasir {

// What begins a call, as tokens: models spell a mark in many ways, and join its end with what follows. Constant.
class CallMarks {
 public:
  // `texts` are marks with which no JSON begins. `specials` are marks that are one special token, which the
  // vocabulary has no bytes of.
  CallMarks(std::shared_ptr<const grammar::Vocabulary> vocabulary, std::vector<std::string> texts,
            std::vector<TokenId> specials);

  bool empty() const { return specials_.empty() && texts_.empty(); }
  const std::vector<TokenId>& specials() const { return specials_; }
  bool whole(std::string_view written) const;  // it begins with a mark
  // The tokens that go on with a mark of which `written` is there, perhaps behind white space where that is nothing.
  const std::vector<TokenId>& next(const std::string& written) const;
  const std::string& bytes_of(TokenId token) const;  // empty: none, or it is not in the vocabulary

 private:
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;
  std::vector<std::string> texts_;
  std::vector<TokenId> specials_;
  std::map<std::string, std::vector<TokenId>> next_;  // by each beginning of a mark
};

// `form` is forked.
std::shared_ptr<const TokenConstraint> call_or_form(const TokenConstraint& form,
                                                    std::shared_ptr<const CallMarks> marks);

}  // namespace kvasir
