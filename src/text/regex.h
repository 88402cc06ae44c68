// A compiled pattern of a tokenizer: PCRE2 with UTF, Unicode properties and JIT, under limits.
//
// A pattern comes from a model's file. Whatever it says, matching it against n bytes takes a number of steps
// that grows with n and no more, and memory that is bounded: beyond that, Error.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_range.h"

namespace kvasir {

class Regex {
 public:
  // `pattern` in the dialect of tokenizer.json (see regex_dialect.h). Throws Error when it does not compile.
  Regex(std::string_view pattern, std::string where);

  // All matches in order, none overlapping, empty ones left out. Safe to call from several threads.
  // REQUIRES: valid UTF-8.
  std::vector<TextRange> matches(std::string_view text) const;

  bool can_match_nothing() const;
  const std::string& pattern() const { return pattern_; }  // as it was given

 private:
  struct Code;

  std::string pattern_;
  std::string where_;
  std::shared_ptr<const Code> code_;
};

}  // namespace kvasir
