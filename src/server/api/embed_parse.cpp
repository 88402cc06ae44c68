#include "server/api/embed_parse.h"

#include <fmt/format.h>

#include "server/api/api_error.h"
#include "server/api/known_fields.h"

namespace kvasir {
namespace {

constexpr size_t kMostInputs = 2048;
constexpr Fields::Range kDimensions{1, 1 << 20};

// A string, an array of strings, an array of token ids, or an array of these.
void read_inputs(const Json& json, EmbedRequest& out) {
  const std::string& param = out.param;
  if (json.is_string()) {
    out.inputs.emplace_back(json.get<std::string>());
    return;
  }
  if (!json.is_array() || json.empty()) {
    bad_param(param, param + " must be a string, an array of strings, or an array of token ids, and not empty");
  }
  if (json.front().is_number()) {
    out.inputs.emplace_back(token_ids(json, param));
    return;
  }
  if (json.size() > kMostInputs) {
    bad_param(param, fmt::format("{} has {} entries; send at most {}", param, json.size(), kMostInputs));
  }
  for (const Json& item : json) {
    if (item.is_string()) {
      out.inputs.emplace_back(item.get<std::string>());
    } else {
      out.inputs.emplace_back(token_ids(item, param));
    }
  }
}

EmbedRequest::Encoding read_encoding(const Fields& fields) {
  const std::string name = fields.text("encoding_format").value_or("float");
  if (name != "float" && name != "base64") {
    bad_param("encoding_format", fmt::format("encoding_format is '{}'; use float or base64", excerpt(name, 40)));
  }
  return name == "float" ? EmbedRequest::Encoding::kFloat : EmbedRequest::Encoding::kBase64;
}

EmbedRequest read_ollama(const Fields& fields, const char* param) {
  refuse_unknown_fields(fields, RequestKind::kOllamaEmbedding);
  fields.text("model");
  if (const std::optional<Fields> options = fields.object("options")) refuse_unknown_options(*options);
  EmbedRequest out;
  out.param = param;
  if (fields.boolean("truncate").value_or(true)) out.too_long = EmbedRequest::TooLong::kCut;
  out.dimensions = fields.integer("dimensions", kDimensions);
  return out;
}

}  // namespace

EmbedRequest parse_openai_embeddings(const Json& body) {
  const Fields fields(body);
  refuse_unknown_fields(fields, RequestKind::kEmbedding);
  fields.text("model");  // any name is served by the one model; only its type is checked
  EmbedRequest out;
  read_inputs(fields.required(out.param), out);
  out.encoding = read_encoding(fields);
  out.dimensions = fields.integer("dimensions", kDimensions);
  return out;
}

EmbedRequest parse_ollama_embed(const Json& body) {
  const Fields fields(body);
  EmbedRequest out = read_ollama(fields, "input");
  read_inputs(fields.required(out.param), out);
  return out;
}

EmbedRequest parse_ollama_embeddings(const Json& body) {
  const Fields fields(body);
  EmbedRequest out = read_ollama(fields, "prompt");
  out.inputs.emplace_back(fields.required_text(out.param));
  return out;
}

}  // namespace kvasir
