// Tokens and their probabilities in the words of the APIs.
#pragma once

#include <span>

#include "server/answer/answer_tokens.h"
#include "server/api/json_fields.h"

namespace kvasir {

// [{token, logprob, bytes, top_logprobs}], as OpenAI's chat and Ollama have it.
OrderedJson logprob_list(std::span<const AnswerToken> tokens);

// {content: logprob_list, refusal: null}
OrderedJson chat_logprobs(std::span<const AnswerToken> tokens);

// {tokens, token_logprobs, top_logprobs, text_offset}, as OpenAI's completions have it. There a token that is no text
// by itself is spelled "bytes:\xe2\x80", and the token itself is always among the top ones.
OrderedJson completion_logprobs(std::span<const AnswerToken> tokens);

}  // namespace kvasir
