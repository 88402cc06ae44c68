// The patterns of tokenizer.json are written for Oniguruma; ours run on PCRE2. The two agree on most of the
// syntax and differ silently in the rest (what \s and \w match, nested classes, scripts), which would cut
// text at other places and so give other tokens. Hence a list of what is known to mean the same, and an Error
// for anything else.
#pragma once

#include <string>
#include <string_view>

namespace kvasir {

// The PCRE2 pattern that matches what this Oniguruma pattern matches.
std::string to_pcre2_dialect(std::string_view pattern, const std::string& where);

}  // namespace kvasir
