// Reasoning in the words of the APIs: what a request wants of it, and what its messages hold. Each throws ApiError
// naming the parameter.
#pragma once

#include <optional>
#include <string>

#include "server/api/api_types.h"

namespace kvasir {

// OpenAI's reasoning_effort, vLLM's include_reasoning, and what other services call them.
void read_openai_reasoning(const Fields& fields, ChatRequest& request);

// A word in the field `name`, for the template; "none" switches thinking off.
void read_effort(const Fields& fields, const std::string& name, ChatRequest& request);

// {"effort": …, "summary": …} of a response.
void read_responses_reasoning(const Fields& fields, ChatRequest& request);

// {"type": "enabled", "budget_tokens": …}, "adaptive" or "disabled".
void read_anthropic_thinking(const Fields& fields, ChatRequest& request);

// true, false, or how hard.
void read_ollama_think(const Fields& fields, ChatRequest& request);

// What was thought before an assistant's message: "reasoning_content", or "reasoning" as vLLM has it, or Ollama's
// "thinking", or parts of these types; nullopt: nothing.
std::optional<std::string> reasoning_of(const Fields& message);

// The text of a response's item of type "reasoning": its content, or else its summary, or what was sealed.
std::string reasoning_item_text(const OrderedJson& item);

// What a client is given to hand back where it keeps no content ("encrypted_content"). Its own model's thoughts are
// no secret to it: nothing is encrypted.
std::string sealed_reasoning(const std::string& text);

}  // namespace kvasir
