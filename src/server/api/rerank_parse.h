// Requests for scores, as Jina and Cohere have them. JSON in, values out; ApiError names what is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api/json_fields.h"

namespace kvasir {

struct RerankRequest {
  std::string query;
  std::vector<std::string> documents;  // at least one
  std::optional<std::int64_t> top_n{};
  bool return_documents = true;
  std::optional<std::int64_t> max_tokens_per_doc{};  // a longer document is cut; none: it is refused
  std::optional<std::string> instruction{};
};

RerankRequest parse_rerank(const Json& body);

}  // namespace kvasir
