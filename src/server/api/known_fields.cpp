#include "server/api/known_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "server/api/api_error.h"
#include "server/api/parse_common.h"

namespace kvasir {
namespace {

using Names = std::span<const std::string_view>;

// Of every API.
constexpr std::array<std::string_view, 22> kCommonFields{"model",
                                                         "temperature",
                                                         "top_p",
                                                         "top_k",
                                                         "min_p",
                                                         "repetition_penalty",
                                                         "frequency_penalty",
                                                         "presence_penalty",
                                                         "logit_bias",
                                                         "seed",
                                                         "ignore_eos",
                                                         "stream",
                                                         "stop_token_ids",
                                                         "min_tokens",
                                                         "priority",
                                                         "explain",
                                                         "cache_salt",
                                                         "kv",
                                                         "speculative",
                                                         "request_id",
                                                         "prompt_cache_key",
                                                         "user"};

// Of Ollama's, whose sampling stands in "options".
constexpr std::array<std::string_view, 9> kOllamaCommon{
    "model", "speculative", "stream", "explain", "cache_salt", "kv", "request_id", "user", "prompt_cache_key"};

constexpr std::array<std::string_view, 34> kChatFields{
    "messages", "stop", "response_format", "guided_json", "json_schema", "n", "stream_options",
    "max_completion_tokens", "max_tokens", "logprobs", "top_logprobs", "tools", "tool_choice", "parallel_tool_calls",
    "chat_template_kwargs", "reasoning_effort", "include_reasoning", "reasoning", "thinking", "enable_thinking",
    "prompt_cache_options", "prompt_cache_retention", "add_generation_prompt", "continue_final_message",
    // refused with a better word of why
    "prompt_logprobs", "functions", "audio", "modalities", "guided_regex", "guided_choice", "guided_grammar",
    "structured_outputs", "grammar", "function_call"};

constexpr std::array<std::string_view, 20> kCompletionFields{"prompt",
                                                             "stop",
                                                             "response_format",
                                                             "guided_json",
                                                             "json_schema",
                                                             "n",
                                                             "stream_options",
                                                             "max_tokens",
                                                             "logprobs",
                                                             "echo",
                                                             "suffix",
                                                             "best_of",
                                                             "prompt_logprobs",
                                                             "guided_regex",
                                                             "guided_choice",
                                                             "guided_grammar",
                                                             "structured_outputs",
                                                             "grammar",
                                                             "audio",
                                                             "modalities"};

constexpr std::array<std::string_view, 23> kResponseFields{"input",
                                                           "instructions",
                                                           "previous_response_id",
                                                           "max_output_tokens",
                                                           "text",
                                                           "tools",
                                                           "tool_choice",
                                                           "include",
                                                           "parallel_tool_calls",
                                                           "top_logprobs",
                                                           "reasoning",
                                                           "store",
                                                           "metadata",
                                                           "truncation",
                                                           "background",
                                                           "conversation",
                                                           "prompt",
                                                           "chat_template_kwargs",
                                                           "stream_options",
                                                           "context_management",
                                                           "prompt_cache_options",
                                                           "prompt_cache_retention",
                                                           "safety_identifier"};

constexpr std::array<std::string_view, 13> kMessageFields{
    "messages", "system",        "max_tokens",    "stop_sequences", "tools",       "tool_choice",         "thinking",
    "metadata", "cache_control", "output_config", "output_format",  "mcp_servers", "chat_template_kwargs"};

constexpr std::array<std::string_view, 17> kOllamaFields{"messages",
                                                         "prompt",
                                                         "system",
                                                         "options",
                                                         "format",
                                                         "keep_alive",
                                                         "tools",
                                                         "tool_choice",
                                                         "think",
                                                         "raw",
                                                         "images",
                                                         "suffix",
                                                         "logprobs",
                                                         "name",
                                                         "top_logprobs",
                                                         "parallel_tool_calls",
                                                         "chat_template_kwargs"};

// Nothing is drawn, so nothing of every API but these.
constexpr std::array<std::string_view, 6> kEmbeddingFields{"model", "input",      "encoding_format",
                                                           "user",  "dimensions", "request_id"};
constexpr std::array<std::string_view, 7> kOllamaEmbeddingFields{"model",      "input",   "prompt", "truncate",
                                                                 "dimensions", "options", "name"};

constexpr std::array<std::string_view, 9> kRerankFields{
    "model",     "query", "documents", "top_n", "user", "return_documents", "instruction", "max_tokens_per_doc",
    "request_id"};

// They say how an answer is made, billed, kept or told, and nothing of what it is.
constexpr std::array<std::string_view, 46> kHarmlessFields{"metadata",
                                                           "store",
                                                           "service_tier",
                                                           "safety_identifier",
                                                           "prediction",
                                                           "verbosity",
                                                           "stream_options",
                                                           "max_tool_calls",
                                                           "client_metadata",
                                                           "moderation",  // OpenAI
                                                           "context_management",
                                                           "container",
                                                           "betas",
                                                           "anthropic_beta",
                                                           "anthropic_version",
                                                           "speed",
                                                           "inference_geo",
                                                           "diagnostics",  // Anthropic
                                                           "skip_special_tokens",
                                                           "spaces_between_special_tokens",
                                                           "return_tokens_as_token_ids",
                                                           "return_token_ids",
                                                           "detokenize",
                                                           "length_penalty",
                                                           "early_stopping",
                                                           "kv_transfer_params",
                                                           "add_special_tokens",  // vLLM
                                                           "cache_prompt",
                                                           "id_slot",
                                                           "timings_per_token",
                                                           "return_progress",
                                                           "return_tokens",
                                                           "post_sampling_probs",
                                                           "n_probs",
                                                           "n_keep",
                                                           "n_cache_reuse",
                                                           "reasoning_format",
                                                           "parse_tool_calls",  // llama-server
                                                           "keep_alive",
                                                           "truncate",
                                                           "shift",  // Ollama
                                                           "provider",
                                                           "transforms",
                                                           "route",
                                                           "usage",
                                                           "extra_headers"};  // those who pass requests on

constexpr std::array<std::string_view, 38> kOllamaOptions{
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
    "logit_bias", "seed", "ignore_eos", "stop_token_ids", "min_tokens", "priority", "explain", "stream",
    "repeat_penalty", "num_predict", "stop",
    // how the model is run is for the server's operator to say
    "num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap", "use_mlock", "numa",
    "low_vram", "f16_kv", "vocab_only", "logits_all", "embedding_only", "rope_frequency_base", "rope_frequency_scale",
    // and these do nothing while mirostat is off, or are about what is penalized here anyway
    "mirostat_eta", "mirostat_tau", "repeat_last_n", "penalize_newline"};

Names names_of(RequestKind kind) {
  switch (kind) {
    case RequestKind::kChat:
      return kChatFields;
    case RequestKind::kCompletion:
      return kCompletionFields;
    case RequestKind::kResponse:
      return kResponseFields;
    case RequestKind::kMessage:
      return kMessageFields;
    case RequestKind::kEmbedding:
      return kEmbeddingFields;
    case RequestKind::kRerank:
      return kRerankFields;
    case RequestKind::kOllamaEmbedding:
      return kOllamaEmbeddingFields;
    case RequestKind::kOllama:
      break;
  }
  return kOllamaFields;
}

Names common_of(RequestKind kind) {
  if (kind == RequestKind::kEmbedding || kind == RequestKind::kOllamaEmbedding || kind == RequestKind::kRerank)
    return {};
  return kind == RequestKind::kOllama ? Names(kOllamaCommon) : Names(kCommonFields);
}

bool has_name(Names names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

[[noreturn]] void refuse_field(const std::string& path) {
  const std::string name = excerpt(path, 80);
  throw ApiError({.param = name, .code = "unknown_parameter"},
                 fmt::format("{} is not known here, and would be ignored; leave it out", name));
}

}  // namespace

void refuse_unknown_fields(const Fields& fields, RequestKind kind) {
  for (const auto& [name, value] : fields.json().items()) {
    if (has_name(common_of(kind), name) || has_name(names_of(kind), name) || has_name(kHarmlessFields, name))
      continue;
    if (!value.is_null() && asks_for_something(value)) refuse_field(fields.path(name));
  }
}

void refuse_unknown_options(const Fields& options) {
  for (const auto& [name, value] : options.json().items()) {
    if (has_name(kOllamaOptions, name) || value.is_null() || !asks_for_something(value)) continue;
    // Of these 1 is what they are without.
    const bool off = (name == "typical_p" || name == "tfs_z") && value == 1;
    if (!off) refuse_field(options.path(name));
  }
}

}  // namespace kvasir
