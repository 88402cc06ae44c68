#include "text/json_reader.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvasir {

void JsonRef::fail(std::string_view problem, std::string fix) const {
  fail_input(fmt::format("{}{}{}", path_, path_.empty() ? "" : " ", problem), *where_, std::move(fix));
}

std::optional<JsonRef> JsonRef::find(std::string_view key) const {
  simdjson::dom::element field;
  if (object().at_key(key).get(field) != simdjson::SUCCESS || field.is_null()) return std::nullopt;
  return JsonRef(field, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key), *where_);
}

JsonRef JsonRef::get(std::string_view key) const {
  std::optional<JsonRef> field = find(key);
  if (!field) fail(fmt::format("has no '{}'", key));
  return *field;
}

std::string_view JsonRef::text() const {
  std::string_view text;
  if (value_.get(text) != simdjson::SUCCESS) fail("must be a string");
  return text;
}

std::int64_t JsonRef::integer() const {
  std::int64_t integer = 0;
  if (value_.get(integer) != simdjson::SUCCESS) fail("must be an integer");
  return integer;
}

bool JsonRef::flag() const {
  bool flag = false;
  if (value_.get(flag) != simdjson::SUCCESS) fail("must be true or false");
  return flag;
}

simdjson::dom::array JsonRef::array() const {
  simdjson::dom::array array;
  if (value_.get(array) != simdjson::SUCCESS) fail("must be an array");
  return array;
}

simdjson::dom::object JsonRef::object() const {
  simdjson::dom::object object;
  if (value_.get(object) != simdjson::SUCCESS)
    fail(path_.empty() ? "the document must be an object" : "must be an object");
  return object;
}

JsonRef JsonRef::element(simdjson::dom::element value, size_t index) const {
  return {value, fmt::format("{}[{}]", path_, index), *where_};
}

JsonDocument::JsonDocument(std::string_view json, std::string where) : where_(std::move(where)) {
  const simdjson::error_code error = parser_.parse(json.data(), json.size()).get(root_);
  if (error != simdjson::SUCCESS) {
    fail_input(fmt::format("is not the JSON it should be: {}", simdjson::error_message(error)), where_,
               "download the file again");
  }
}

}  // namespace kvasir
