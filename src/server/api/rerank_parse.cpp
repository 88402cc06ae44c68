#include "server/api/rerank_parse.h"

#include <fmt/format.h>

#include <limits>

#include "server/api/api_error.h"
#include "server/api/known_fields.h"

namespace kvasir {
namespace {

constexpr size_t kMostDocuments = 2048;
constexpr Fields::Range kCount{1, std::numeric_limits<std::int32_t>::max()};

// A string, or an object whose text it is.
std::string document_of(const Json& json, size_t index) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_object()) {
    const Fields document(json, fmt::format("documents[{}].", index));
    std::string text = document.required_text("text");
    refuse_unknown_fields(document, PartKind::kDocument);
    return text;
  }
  bad_param("documents", fmt::format("documents[{}] must be a string, or an object with a text", index));
}

}  // namespace

RerankRequest parse_rerank(const Json& body) {
  const Fields fields(body);
  refuse_unknown_fields(fields, RequestKind::kRerank);
  fields.text("model");  // any name is served by the one model; only its type is checked
  RerankRequest out;
  out.query = fields.required_text("query");
  const Json& documents = fields.required("documents");
  if (!documents.is_array() || documents.empty()) {
    bad_param("documents", "documents must be an array of strings, and not empty");
  }
  if (documents.size() > kMostDocuments) {
    bad_param("documents",
              fmt::format("documents has {} entries; send at most {}", documents.size(), kMostDocuments));
  }
  for (const Json& one : documents) out.documents.push_back(document_of(one, out.documents.size()));
  out.top_n = fields.integer("top_n", kCount);
  out.return_documents = fields.boolean("return_documents").value_or(true);
  out.max_tokens_per_doc = fields.integer("max_tokens_per_doc", kCount);
  out.instruction = fields.text("instruction");
  return out;
}

}  // namespace kvasir
