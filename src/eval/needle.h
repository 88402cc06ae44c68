// Needles in haystacks: a name hidden in a long text of no importance, asked for at its end.
//
// A small model that follows no instructions can still show whether its cache has kept the name: it should find the
// true one likelier, as the continuation of "The queen was called", than others of the same form that it never read.
// With n candidates, one in n is right by chance.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "eval/reader.h"
#include "text/tokenizer.h"

namespace kvasir {

struct NeedlePlan {
  std::int64_t context = 0;  // tokens of each case, the answer included; a few may be left over
  int depths = 5;            // places of the needle, from the beginning to the end, evenly
  int cases = 8;             // at each depth
  int candidates = 10;       // names to choose among, the true one included
  std::vector<TokenId> opening;

  int all_cases() const { return depths * cases; }
  double chance() const { return 1.0 / candidates; }
};

struct NeedleCase {
  std::vector<TokenId> prompt;
  std::vector<std::vector<TokenId>> candidates;  // the true one first; all of as many tokens
};

// Case i is at depth i % depths. The same for the same plan, tokenizer and i. Throws Error when the context is too
// short for a needle and a haystack, or when the tokenizer has too few names of one length.
NeedleCase make_needle_case(const Tokenizer& tokenizer, const NeedlePlan& plan, int i);

// Whether the true name is likelier than each of the others.
bool finds_needle(Reader& reader, const NeedleCase& one);

}  // namespace kvasir
