// The model of a TokenizerSpec, once its tokens are known.
#pragma once

#include "text/tokenizer_data.h"
#include "text/tokenizer_spec.h"

namespace kvasir {

// Text never becomes a special token by it: what a user typed must not become one. Throws Error where merges name no
// tokens, where a model that needs an unknown token has none, and where pieces are too long or too many to be
// searched.
WordModel build_model(const TokenizerSpec& spec, const TokenizerData& data);

}  // namespace kvasir
