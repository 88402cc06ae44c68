#include "server/api/known_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "server/api/api_error.h"
#include "server/api/parse_common.h"

namespace kvasir {
namespace {

// Names with one space between them.
using Words = std::string_view;

constexpr Words kCommonFields =
    "model temperature top_p top_k min_p repetition_penalty frequency_penalty presence_penalty logit_bias seed "
    "ignore_eos stream stop_token_ids min_tokens priority explain cache_salt kv speculative request_id "
    "prompt_cache_key user";

// Of Ollama's, whose sampling stands in "options".
constexpr Words kOllamaCommon =
    "model speculative stream explain cache_salt kv request_id user prompt_cache_key options format keep_alive think "
    "logprobs top_logprobs chat_template_kwargs images name";

// What stands in the second line of each is refused with a better word of why.
constexpr Words kChatFields =
    "messages stop response_format guided_json json_schema n stream_options max_completion_tokens max_tokens "
    "logprobs "
    "top_logprobs tools tool_choice parallel_tool_calls chat_template_kwargs reasoning_effort include_reasoning "
    "reasoning thinking enable_thinking thinking_budget prompt_cache_options prompt_cache_retention "
    "add_generation_prompt continue_final_message prediction "
    "prompt_logprobs functions audio modalities guided_regex guided_choice guided_grammar structured_outputs grammar "
    "function_call";
constexpr Words kCompletionFields =
    "prompt stop response_format guided_json json_schema n stream_options max_tokens logprobs echo "
    "suffix best_of prompt_logprobs guided_regex guided_choice guided_grammar structured_outputs grammar audio "
    "modalities";
constexpr Words kResponseFields =
    "input instructions previous_response_id max_output_tokens text tools tool_choice include parallel_tool_calls "
    "top_logprobs reasoning store metadata chat_template_kwargs stream_options prompt_cache_options "
    "prompt_cache_retention safety_identifier "
    "truncation background conversation prompt context_management";
constexpr Words kMessageFields =
    "messages system max_tokens stop_sequences tools tool_choice thinking metadata cache_control output_config "
    "output_format chat_template_kwargs diagnostics context_management "
    "mcp_servers";
constexpr Words kOllamaChatFields = "messages tools tool_choice parallel_tool_calls";
constexpr Words kOllamaGenerateFields = "prompt system raw suffix";

// Nothing is drawn, so nothing of every API but these.
constexpr Words kEmbeddingFields = "model input encoding_format user dimensions request_id";
constexpr Words kOllamaEmbeddingFields = "model input prompt truncate dimensions options name";
constexpr Words kRerankFields =
    "model query documents top_n user return_documents instruction max_tokens_per_doc request_id";

// They say how an answer is made, billed, kept or told, and nothing of what it is: OpenAI's, Anthropic's, vLLM's,
// llama-server's, Ollama's, and of those who pass requests on.
constexpr Words kHarmlessFields =
    "metadata store service_tier safety_identifier prediction verbosity max_tool_calls client_metadata "
    "access_programs "
    "betas anthropic_beta anthropic_version speed inference_geo billing_policy fallback_credit_token user_profile_id "
    "workspace_id "
    "length_penalty early_stopping "
    "cache_prompt id_slot timings_per_token return_progress n_keep n_cache_reuse "
    "keep_alive truncate shift "
    "provider transforms route usage extra_headers";

// Of these, false asks for something.
constexpr Words kTrueFields =
    "skip_special_tokens spaces_between_special_tokens detokenize parse_tool_calls do_sample";
constexpr Words kTrueCompletionFields = "add_special_tokens";

constexpr Words kOllamaOptions =
    "temperature top_p top_k min_p repetition_penalty frequency_penalty presence_penalty logit_bias seed ignore_eos "
    "stop_token_ids min_tokens priority explain stream repeat_penalty num_predict stop repeat_last_n "
    // how the model is run is for the server's operator to say
    "num_ctx num_keep num_batch num_gpu main_gpu num_thread use_mmap use_mlock numa low_vram f16_kv vocab_only "
    "logits_all embedding_only rope_frequency_base rope_frequency_scale "
    // and these do nothing while mirostat is off, or are about what is penalized here anyway
    "mirostat_eta mirostat_tau penalize_newline";

bool has_word(Words words, std::string_view name) {
  if (name.empty() || name.find(' ') != std::string_view::npos) return false;
  for (size_t at = words.find(name); at != Words::npos; at = words.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

Words words_of(RequestKind kind) {
  switch (kind) {
    case RequestKind::kChat:
      return kChatFields;
    case RequestKind::kCompletion:
      return kCompletionFields;
    case RequestKind::kResponse:
      return kResponseFields;
    case RequestKind::kMessage:
      return kMessageFields;
    case RequestKind::kOllamaChat:
      return kOllamaChatFields;
    case RequestKind::kOllamaGenerate:
      return kOllamaGenerateFields;
    case RequestKind::kEmbedding:
      return kEmbeddingFields;
    case RequestKind::kOllamaEmbedding:
      return kOllamaEmbeddingFields;
    case RequestKind::kRerank:
      break;
  }
  return kRerankFields;
}

Words common_of(RequestKind kind) {
  switch (kind) {
    case RequestKind::kEmbedding:
    case RequestKind::kOllamaEmbedding:
    case RequestKind::kRerank:
      return "";
    case RequestKind::kOllamaChat:
    case RequestKind::kOllamaGenerate:
      return kOllamaCommon;
    default:
      return kCommonFields;
  }
}

struct KnownPart {
  PartKind kind;
  Words words;  // what is read, and behind it what a client may send back, or may say without changing an answer
};

constexpr KnownPart kParts[] = {
    {PartKind::kStreamOptions, "include_usage include_obfuscation"},
    {PartKind::kChatMessage,
     "role content name tool_call_id tool_calls reasoning_content reasoning thinking reasoning_details refusal "
     "prefix "
     "partial tool_name images function_call "
     "id type status annotations audio created_at timestamp cache_control prompt_cache_breakpoint "
     "provider_specific_fields extra_content metadata"},
    {PartKind::kAnthropicMessage,
     "role content output_config "
     "id type model stop_reason stop_sequence stop_details usage container diagnostics context_management "
     "cache_control kvasir"},
    {PartKind::kItem,
     "type role content call_id name arguments namespace output summary id "
     "status phase encrypted_content caller async created_by"},
    {PartKind::kReasoning, "effort exclude enabled max_tokens summary generate_summary context mode"},
    {PartKind::kThinking, "type budget_tokens display clear_thinking block_binding"},
    {PartKind::kText, "format verbosity"},
    {PartKind::kOutputConfig, "format effort"},
    {PartKind::kTurnConfig, "effort"},
    {PartKind::kCacheOptions, "mode ttl comparison_response_id"},
    {PartKind::kDiagnostics, "previous_message_id"},
    {PartKind::kFormat, "type json_schema schema name strict description"},
    {PartKind::kNamedSchema, "name schema strict description"},
    {PartKind::kPrediction, "type content"},
    {PartKind::kDocument, "text id metadata"},
    {PartKind::kContextManagement, "edits"},
    {PartKind::kContextEdit, "type keep"},
    {PartKind::kTextPart,
     "type text refusal prompt_cache_breakpoint "
     "cache_control citations annotations logprobs parsed phase id index status metadata provider_specific_fields "
     "extra_content"},
    {PartKind::kThoughtPart,
     "type thinking text summary "
     "data signature encrypted format closed id index status metadata cache_control provider_specific_fields "
     "extra_content"},
    {PartKind::kToolUse, "type id name input caller toolset_name index cache_control"},
    {PartKind::kToolResult, "type tool_use_id content is_error toolset_name cache_control"},
    {PartKind::kToolReference, "type tool_name cache_control"},
    {PartKind::kToolChange, "type tool cache_control"},
    {PartKind::kChangedTool, "type name definition"},
    {PartKind::kCacheControl, "type ttl scope"},
    {PartKind::kCacheMark, "mode"},
    {PartKind::kTool, "type function id metadata cache_control"},
    {PartKind::kFunction, "name description parameters strict type title annotations"},
    {PartKind::kFlatTool,
     "type name description parameters strict allowed_callers "
     "defer_loading output_schema id title annotations metadata cache_control"},
    {PartKind::kAnthropicTool,
     "type name description input_schema strict allowed_callers "
     "defer_loading eager_input_streaming title annotations cache_control"},
    {PartKind::kNamespace, "type name description tools"},
    {PartKind::kToolChoice, "type name function allowed_tools mode tools disable_parallel_tool_use"},
    {PartKind::kAllowedTools, "type mode tools"},
    {PartKind::kChosenFunction, "type name function"},
    {PartKind::kToolCall,
     "type id function "
     "index status metadata provider_specific_fields extra_content thought_signature"},
    {PartKind::kCalledFunction,
     "name arguments "
     "description index parsed_arguments output provider_specific_fields extra_content thought_signature"},
};

Words words_of(PartKind kind) { return std::ranges::find(kParts, kind, &KnownPart::kind)->words; }

[[noreturn]] void refuse_field(const std::string& path) {
  const std::string name = excerpt(path, 80);
  throw ApiError({.param = name, .code = "unknown_parameter"},
                 fmt::format("{} is not known here, and would be ignored; leave it out", name));
}

// llama-server's: thoughts are parted from answers here, as these two say.
bool parts_thoughts(std::string_view name, const Json& value) {
  return name == "reasoning_format" && (value == "auto" || value == "deepseek");
}

}  // namespace

void refuse_unknown_fields(const Fields& fields, RequestKind kind) {
  for (const auto& [name, value] : fields.json().items()) {
    if (has_word(common_of(kind), name) || has_word(words_of(kind), name) || has_word(kHarmlessFields, name) ||
        parts_thoughts(name, value))
      continue;
    const bool true_by_itself =
        has_word(kTrueFields, name) || (kind == RequestKind::kCompletion && has_word(kTrueCompletionFields, name));
    const bool asks = true_by_itself ? !value.is_null() && value != true : asks_for_something(value);
    if (asks) refuse_field(fields.path(name));
  }
}

void refuse_unknown_fields(const Fields& fields, PartKind kind) {
  for (const auto& [name, value] : fields.json().items()) {
    if (!has_word(words_of(kind), name) && asks_for_something(value)) refuse_field(fields.path(name));
  }
}

void refuse_unknown_options(const Fields& options) {
  for (const auto& [name, value] : options.json().items()) {
    if (has_word(kOllamaOptions, name) || !asks_for_something(value)) continue;
    // Of these 1 is what they are without.
    const bool off = (name == "typical_p" || name == "tfs_z") && value == 1;
    if (!off) refuse_field(options.path(name));
  }
}

}  // namespace kvasir
