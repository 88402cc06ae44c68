// The parts of requests that several APIs share. Each throws ApiError naming the parameter.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/api_types.h"

namespace kvasir {

// A parameter that is understood but cannot be honoured yet.
struct Unsupported {
  const char* name;
  const char* why;
};

// Refuses those of the parameters that are there and ask for something: null, false, 0 and empty ones do not.
void refuse(const Fields& fields, std::span<const Unsupported> list);

// temperature, top_p, top_k, min_p, penalties, logit_bias, seed, stop_token_ids, ignore_eos, explain, stream.
void read_sampling(const Fields& fields, AnswerOptions& options);

// A string, or up to `most` of them.
std::vector<std::string> read_stops(const Fields& fields, const std::string& name, size_t most);

// A message's text: a string, or an array of {"type":"text","text":…} parts, put together.
std::string content_text(const Json& content, const std::string& param);

// [{role, content}] with roles that templates know. OpenAI's "developer" is what templates call "system".
OrderedJson read_messages(const Fields& fields);

}  // namespace kvasir
