// How an answer is written down: one implementation for each API and each way of sending.
//
// Calls come in this order: begin, then reasoning, text, tool calls and end of the choices in any mixture, then
// finish; or fail at any time, and nothing after it. Each returns bytes to send. A writer for replies that are sent
// whole returns nothing until finish.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/answer/answer_part.h"
#include "server/answer/generation.h"
#include "server/api/api_error.h"
#include "server/api/cache_diagnosis.h"
#include "server/api/json_fields.h"

namespace kvasir {

// What every reply says about itself.
struct AnswerHead {
  std::string id;
  std::string model;
  std::int64_t created = 0;       // Unix time
  std::vector<std::string> echo;  // text before each choice; empty: none
  size_t choices = 1;
  bool include_usage = false;
  bool logprobs = false;  // pieces come with their tokens
};

struct AnswerReport {
  Totals totals;
  OrderedJson explanation;                    // null: nobody asked
  std::optional<CacheDiagnosis> diagnosis{};  // likewise
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  virtual std::string begin(const AnswerReport& report) = 0;
  virtual std::string text(size_t choice, const AnswerPiece& piece) = 0;
  // What the model thought, in pieces: only of models that are known to.
  virtual std::string reasoning(size_t, const std::string&) { return {}; }
  // Only where the request may bring tools. Arguments are of the newest call: JSON, in pieces.
  virtual std::string tool_call(size_t, const ToolCallHead&) { return {}; }
  virtual std::string tool_arguments(size_t, const std::string&) { return {}; }
  virtual std::string end(size_t choice, const Ending& ending) = 0;
  virtual std::string finish(const AnswerReport& report) = 0;
  virtual std::string fail(const ApiError& error) = 0;
};

enum class OpenAiKind { kChat, kText };
enum class OllamaKind { kChat, kGenerate };

std::unique_ptr<AnswerWriter> openai_stream(OpenAiKind kind, AnswerHead head);
std::unique_ptr<AnswerWriter> openai_whole(OpenAiKind kind, AnswerHead head);
std::unique_ptr<AnswerWriter> anthropic_stream(AnswerHead head);
std::unique_ptr<AnswerWriter> anthropic_whole(AnswerHead head);
std::unique_ptr<AnswerWriter> ollama_stream(OllamaKind kind, AnswerHead head);
std::unique_ptr<AnswerWriter> ollama_whole(OllamaKind kind, AnswerHead head);

}  // namespace kvasir
