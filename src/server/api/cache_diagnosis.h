// Why an earlier answer's prompt could not be read from the cache, in the words of the two APIs that ask it so.
#pragma once

#include "server/answer/prompt_print.h"
#include "server/api/json_fields.h"

namespace kvasir {

struct CacheDiagnosis {
  enum class Kind { kFirst, kNotFound, kCompared };  // kFirst: there is nothing to compare with yet
  Kind kind = Kind::kFirst;
  PromptComparison comparison{};
  bool gone = false;  // the prompts agree, and the cache no longer had what they have in common
};

// {"cache_miss_reason": {…}}; null: the prompt before is all there.
OrderedJson anthropic_diagnostics(const CacheDiagnosis& diagnosis);

// {"type": "cache_hit", …}
OrderedJson openai_diagnostics(const CacheDiagnosis& diagnosis);

}  // namespace kvasir
