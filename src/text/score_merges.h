// Scores as merges: SentencePiece's BPE joins any two neighbours that are a token together, the one of highest score
// first.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer_spec.h"

namespace kvasir {

// The merges of all tokens of `vocab` but the bytes: as many of each as there are ways to cut it in two tokens, all
// of the rank of its score. `scores` are by id. Throws Error for a score that is not a number and for tokens beyond
// kMaxAddedTokenBytes.
std::vector<TokenizerSpec::Merge> merges_by_score(const std::vector<std::pair<std::string, TokenId>>& vocab,
                                                  const std::vector<float>& scores, const std::string& where);

}  // namespace kvasir
