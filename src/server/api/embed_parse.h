// Requests for vectors: OpenAI's and Ollama's. JSON in, values out; ApiError names what is wrong.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "server/api/json_fields.h"

namespace kvasir {

struct EmbedRequest {
  enum class Encoding { kFloat, kBase64 };
  enum class TooLong { kRefused, kCut };

  std::vector<std::variant<std::string, std::vector<TokenId>>> inputs;  // at least one
  std::string param = "input";                                          // that they came in
  Encoding encoding = Encoding::kFloat;
  TooLong too_long = TooLong::kRefused;
  std::optional<std::int64_t> dimensions{};
};

EmbedRequest parse_openai_embeddings(const Json& body);
EmbedRequest parse_ollama_embed(const Json& body);
EmbedRequest parse_ollama_embeddings(const Json& body);  // the older one: a prompt, and not a list of inputs

}  // namespace kvasir
