#include "server/api/cache_diagnosis.h"

namespace kvasir {
namespace {

// Empty: Anthropic has no word for it.
std::string_view anthropic_reason(PromptChange change) {
  switch (change) {
    case PromptChange::kPolicy:
      return "model_changed";
    case PromptChange::kTools:
      return "tools_changed";
    case PromptChange::kSystem:
      return "system_changed";
    case PromptChange::kMessages:
      return "messages_changed";
    case PromptChange::kNone:
    case PromptChange::kCacheSpace:
    case PromptChange::kForm:
    case PromptChange::kReasoning:
      break;
  }
  return "";
}

std::string_view openai_reason(PromptChange change) {
  switch (change) {
    case PromptChange::kPolicy:
      return "model_changed";
    case PromptChange::kCacheSpace:
      return "prompt_cache_key_changed";
    case PromptChange::kTools:
      return "tools_changed";
    case PromptChange::kForm:
      return "text_format_changed";
    case PromptChange::kReasoning:
      return "reasoning_effort_changed";
    case PromptChange::kNone:
    case PromptChange::kSystem:
    case PromptChange::kMessages:
      break;
  }
  return "input_changed";
}

}  // namespace

OrderedJson anthropic_diagnostics(const CacheDiagnosis& diagnosis) {
  using Kind = CacheDiagnosis::Kind;
  const PromptComparison& found = diagnosis.comparison;
  if (diagnosis.kind == Kind::kFirst) return nullptr;
  if (diagnosis.kind == Kind::kNotFound) return {{"cache_miss_reason", {{"type", "previous_message_not_found"}}}};
  if (found.change == PromptChange::kNone && !diagnosis.gone) return nullptr;
  const std::string_view reason = anthropic_reason(found.change);
  if (reason.empty()) return {{"cache_miss_reason", {{"type", "unavailable"}}}};
  return {{"cache_miss_reason", {{"type", reason}, {"cache_missed_input_tokens", found.missed_tokens}}}};
}

OrderedJson openai_diagnostics(const CacheDiagnosis& diagnosis) {
  using Kind = CacheDiagnosis::Kind;
  const PromptComparison& found = diagnosis.comparison;
  if (diagnosis.kind == Kind::kFirst) return nullptr;
  if (diagnosis.kind == Kind::kNotFound) return {{"type", "comparison_response_not_found"}};
  if (found.change == PromptChange::kNone) return {{"type", diagnosis.gone ? "unavailable" : "cache_hit"}};
  return {{"type", "cache_miss"},
          {"reason", openai_reason(found.change)},
          {"cache_missed_tokens", found.missed_tokens},
          {"comparison_reusable_tokens", found.common_tokens}};
}

}  // namespace kvasir
