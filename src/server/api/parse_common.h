// The parts of requests that several APIs share. Each throws ApiError naming the parameter.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/api/api_types.h"

namespace kvasir {

// A parameter that is understood but cannot be honoured yet.
struct Unsupported {
  const char* name;
  const char* why;
};

// Whether a value asks for anything: null, false, 0 and empty ones do not.
bool asks_for_something(const Json& value);

// Refuses those of the parameters that are there and ask for something: null, false, 0 and empty ones do not.
void refuse(const Fields& fields, std::span<const Unsupported> list);

// temperature, top_p, top_k, min_p, penalties, logit_bias, seed, stop_token_ids, ignore_eos, min_tokens, priority,
// explain, stream.
void read_sampling(const Fields& fields, AnswerOptions& options);

// A setting as it was written: 0.7, where a float as a double is 0.699999988.
double as_written(float value);

// max_tokens is known: min_tokens may not be more. `param` is what the API calls it.
void check_lengths(const AnswerOptions& options, const std::string& param);

// {"logprobs": true, "top_logprobs": 0-20}, as OpenAI's chat and Ollama have it.
std::optional<int> read_chat_logprobs(const Fields& fields);

// The form of a JSON Schema that stands in a request: an object, or its text.
ResponseFormat schema_format(const Json& schema, const std::string& param);

// OpenAI's {"type": "text", "json_object" or "json_schema"} in the field `name`. Where the last has its schema
// differs: `read_schema` reads it out of that object. A schema beside "json_object" is llama-server's way.
using ReadSchema = ResponseFormat (*)(const Fields& format);
ResponseFormat read_openai_format(const Fields& fields, const std::string& name, ReadSchema read_schema);

// cache_salt and prompt_cache_key, which stand beside the messages in every API.
CacheSpace read_cache_space(const Fields& fields);

// prompt_cache_options.comparison_response_id; nullopt: nobody wants to know.
std::optional<std::string> read_comparison(const Fields& fields);

// `kv`, which stands there too: a KV policy as text, or as an object of its settings with "format" for both formats;
// either may have a state_budget.
RequestedKv read_kv(const Fields& fields);

// A string, or up to `most` of them.
std::vector<std::string> read_stops(const Fields& fields, const std::string& name, size_t most);

// A message's text: a string, or an array of {"type":"text","text":…} parts, put together.
std::string content_text(const Json& content, const std::string& param);

// stream_options, which only a stream may have. True: it shall end with its usage.
bool read_stream_options(const Fields& fields, bool stream);

// continue_final_message and add_generation_prompt, as vLLM has them, and a last message that says that it goes on.
ChatRequest::Turn read_turn(const Fields& fields, const OrderedJson& messages);

// chat_template_kwargs: variables for the chat template.
OrderedJson read_template_variables(const Fields& fields);

// [{role, content, tool_calls}] with roles that templates know. OpenAI's "developer" is what templates call "system".
OrderedJson read_messages(const Fields& fields);

}  // namespace kvasir
