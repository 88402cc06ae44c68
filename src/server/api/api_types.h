// What the APIs ask for, once parsed: one set of values for OpenAI's, Anthropic's and Ollama's words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "engine/draft/drafters.h"
#include "layout/kv_policy.h"
#include "sample/sampling_overrides.h"
#include "server/api/json_fields.h"

namespace kvasir {

// What format an answer must have.
struct ResponseFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema };
  Kind kind = Kind::kText;
  std::string schema{};  // kJsonSchema: its text
  std::string param{};   // that asked for it, and is blamed when the schema is bad
};

// A division of the tenant's own cache, as the client wants it: requests share blocks only when both are the same.
struct CacheSpace {
  std::string salt;  // vLLM's cache_salt; empty: none
  std::string key;   // OpenAI's prompt_cache_key; empty: none
};

// What the model may call. Empty: nothing.
struct Toolbox {
  enum class Must { kNothing, kCall };  // kCall: the answer is one call, held to its schema

  struct Tool {
    std::string name;
    OrderedJson function;  // {name, description, parameters}; parameters are a JSON Schema
    std::string space{};   // the namespace that it was listed in; empty: none
  };
  std::vector<Tool> tools{};
  std::vector<std::string> skipped{};  // types of tools that nobody here can run, and the model is not told of
  Must must = Must::kNothing;
  std::string only{};    // kCall: the one to call; empty: any
  bool parallel = true;  // more than one call in an answer
};

struct AnswerOptions {
  SamplingParams sampling;                 // the API's habits, penalties and bias; its seed is set below
  SamplingOverrides named;                 // what the request says of its draw: see resolve_sampling
  std::optional<std::uint64_t> seed;       // nullopt: a new one for each request
  std::optional<std::int64_t> max_tokens;  // nullopt: as many as fit
  std::vector<std::string> stop;           // none is empty
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  std::int64_t min_tokens = 0;  // neither a stop token nor a stop string ends the answer before
  std::optional<int> logprobs;  // tell each token's, and so many of the likeliest
  int priority = 0;             // the smaller goes first
  ResponseFormat format;
  Toolbox toolbox;
  int n = 1;
  bool stream = false;
  bool include_usage = false;
  bool explain = false;  // say why the cache was used as it was
  bool show_reasoning = true;
  // The earlier answer whose prompt this one's is compared with; empty: none yet; nullopt: nobody wants to know.
  std::optional<std::string> compare_with{};
  CacheSpace space;
  RequestedKv kv;  // nothing: the server's own
  SpeculativeParams speculative;
  std::string prediction;  // what the answer may be like; empty: nobody knows
};

struct ChatRequest {
  // How the answer stands to the messages.
  enum class Turn {
    kNew,        // a turn of the assistant's, which the template opens
    kBare,       // whatever follows what the template made of the messages
    kContinues,  // the last message goes on
  };

  OrderedJson messages = OrderedJson::array();    // [{role, content, …}], contents as plain text
  OrderedJson variables = OrderedJson::object();  // for the chat template
  Turn turn = Turn::kNew;
  AnswerOptions options;
};

using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  std::vector<Prompt> prompts;  // at least one
  bool echo = false;
  AnswerOptions options;
};

}  // namespace kvasir
