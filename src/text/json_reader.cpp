#include "text/json_reader.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvasir {

void JsonRef::fail(std::string_view problem, std::string fix) const {
  fail_input(fmt::format("{}{}{}", path_, path_.empty() ? "" : " ", problem), *where_, std::move(fix));
}

std::optional<JsonRef> JsonRef::find(std::string_view key) const {
  (void)object();
  const std::optional<Json> field = value_.find(key);
  if (!field || field->is_null()) return std::nullopt;
  return JsonRef(*field, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key), *where_);
}

JsonRef JsonRef::get(std::string_view key) const {
  std::optional<JsonRef> field = find(key);
  if (!field) fail(fmt::format("has no '{}'", key));
  return *field;
}

std::string_view JsonRef::text() const {
  if (!value_.is_text()) fail("must be a string");
  return *value_.text();
}

std::int64_t JsonRef::integer() const {
  const std::optional<std::int64_t> integer = value_.integer();
  if (!integer) fail("must be an integer");
  return *integer;
}

bool JsonRef::flag() const {
  const std::optional<bool> flag = value_.flag();
  if (!flag) fail("must be true or false");
  return *flag;
}

bool JsonRef::flag_or(std::string_view key, bool otherwise) const {
  const std::optional<JsonRef> field = find(key);
  return field ? field->flag() : otherwise;
}

Json::Range<Json> JsonRef::array() const {
  if (!value_.is_array()) fail("must be an array");
  return value_.items();
}

Json::Range<JsonMember> JsonRef::object() const {
  if (!value_.is_object()) fail(path_.empty() ? "the document must be an object" : "must be an object");
  return value_.members();
}

JsonRef JsonRef::element(Json value, size_t index) const {
  return {value, fmt::format("{}[{}]", path_, index), *where_};
}

JsonDocument::JsonDocument(std::string_view json, std::string where) : where_(std::move(where)) {
  std::string problem;
  tree_ = JsonTree::parse(json, problem);
  if (!tree_) fail_input("is not the JSON it should be: " + problem, where_, "download the file again");
}

}  // namespace kvasir
