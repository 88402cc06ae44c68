#include "grammar/schema_expansion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "grammar/builder.h"
#include "grammar/schema_merge.h"

namespace kvasir::grammar {
namespace {

constexpr int kMaxDepth = 200;
constexpr std::size_t kMaxAlternatives = 4096;
constexpr std::size_t kMaxSpent = std::size_t{1} << 22;
constexpr std::size_t kMaxSpentAtOnce = std::size_t{1} << 20;

// JSON values in it, itself included: what a copy costs. Nesting is bounded by the reader, and by kMaxDepth for
// merges.
std::size_t weight(const Json& value) {
  std::size_t sum = 1;
  if (value.is_structured()) {
    for (const Json& part : value) sum += weight(part);
  }
  return sum;
}

std::size_t weight(const std::vector<Json>& values) {
  std::size_t sum = 0;
  for (const Json& value : values) sum += weight(value);
  return sum;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      if (at >= text.size()) return std::string_view::npos;
      const char c = text[at] >= 'a' && text[at] <= 'f' ? static_cast<char>(text[at] - 32) : text[at];
      return std::string_view("0123456789ABCDEF").find(c);
    };
    if (text[i] == '%' && digit(i + 1) < 16 && digit(i + 2) < 16) {
      out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

void remove_duplicates(std::vector<Json>& schemas) {
  std::unordered_set<std::string> seen;
  std::erase_if(schemas, [&](const Json& schema) { return !seen.insert(schema.dump()).second; });
}

}  // namespace

void SchemaExpansion::spend(std::size_t values, const std::string& path) {
  spent_ += values;
  if (values > kMaxSpentAtOnce || spent_ > kMaxSpent) {
    fail_too_large("the schema combines into too many alternatives", path);
  }
}

const Json& SchemaExpansion::resolve(const std::string& reference, const std::string& path) const {
  if (!reference.starts_with('#')) fail_unsupported(fmt::format("a $ref outside of the schema, {}", reference), path);
  try {
    const Json& found = root_.at(Json::json_pointer(percent_decoded(std::string_view(reference).substr(1))));
    if (found.is_object() || found.is_boolean()) return found;
  } catch (const Json::exception&) {
    // Not a pointer, or to nothing: the same to the reader.
  }
  fail_schema(fmt::format("$ref {} leads to no schema", reference), path);
}

std::vector<Json> SchemaExpansion::expand(const Json& schema, const std::string& path) {
  open_.clear();
  return expand_inner(schema, path, 0);
}

std::vector<Json> SchemaExpansion::expand_reference(const Json& reference, const std::string& path, int depth) {
  if (!reference.is_string()) fail_schema("$ref is not a string", path);
  const std::string name = reference.get<std::string>();
  // A value of A that is a value of A: no value comes of it that does not come otherwise.
  if (!open_.insert(name).second) return {};
  std::vector<Json> out = expand_inner(resolve(name, path), path, depth + 1);
  open_.erase(name);
  return out;
}

std::vector<Json> SchemaExpansion::expand_inner(const Json& schema, const std::string& path, int depth) {
  if (depth > kMaxDepth) fail_too_large("the schema's $ref, allOf and anyOf nest too deep", path);
  if (schema.is_boolean()) return schema == true ? std::vector<Json>{Json::object()} : std::vector<Json>{};
  if (!schema.is_object()) fail_schema("a schema is an object, true or false", path);
  spend(16 + weight(schema), path);  // a step costs even where there is little to copy
  std::vector<Json> out{flatten(schema, path)};
  if (const auto reference = schema.find("$ref"); reference != schema.end()) {
    out = combine(out, expand_reference(*reference, path, depth), path);
  }
  for (const char* key : {"allOf", "anyOf", "oneOf"}) {
    const auto list = schema.find(key);
    if (list == schema.end()) continue;
    if (!list->is_array() || list->empty()) fail_schema(fmt::format("\"{}\" is not a list of schemas", key), path);
    std::vector<Json> any;
    for (std::size_t i = 0; i < list->size(); ++i) {
      std::vector<Json> one = expand_inner((*list)[i], fmt::format("{}.{}[{}]", path, key, i), depth + 1);
      if (key == std::string_view("allOf")) {
        out = combine(out, one, path);
      } else {
        any.insert(any.end(), std::make_move_iterator(one.begin()), std::make_move_iterator(one.end()));
        if (any.size() > kMaxAlternatives) fail_too_large("the schema has too many alternatives", path);
      }
    }
    if (key != std::string_view("allOf")) out = combine(out, any, path);
  }
  return out;
}

std::vector<Json> SchemaExpansion::combine(const std::vector<Json>& left, const std::vector<Json>& right,
                                           const std::string& path) {
  if (left.size() * right.size() > kMaxAlternatives) fail_too_large("the schema has too many alternatives", path);
  spend(left.size() * weight(right) + right.size() * weight(left), path);
  std::vector<Json> out;
  out.reserve(left.size() * right.size());
  for (const Json& a : left) {
    for (const Json& b : right) out.push_back(merge(a, b, path));
  }
  remove_duplicates(out);
  return out;
}

}  // namespace kvasir::grammar
