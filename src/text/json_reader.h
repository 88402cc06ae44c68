// JSON with our errors: every accessor names the field that is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace kvasir {

// A value of a parsed document and the path to it. A view: valid as long as its JsonDocument.
class JsonRef {
 public:
  JsonRef(Json value, std::string path, const std::string& where)
      : value_(value), path_(std::move(path)), where_(&where) {}

  // The field of an object; nullopt when it is missing or null. Throws Error when this is no object.
  std::optional<JsonRef> find(std::string_view key) const;
  JsonRef get(std::string_view key) const;  // Error when it is missing or null

  std::string_view text() const;
  std::int64_t integer() const;
  bool flag() const;
  bool flag_or(std::string_view key, bool otherwise) const;  // of a field that may be missing or null
  bool is_text() const { return value_.is_text(); }
  bool is_array() const { return value_.is_array(); }
  bool is_object() const { return value_.is_object(); }

  Json::Range<Json> array() const;
  Json::Range<JsonMember> object() const;
  JsonRef element(Json value, size_t index) const;  // a member of array(), with its path

  // Throws Error: "where: path problem; fix".
  [[noreturn]] void fail(std::string_view problem,
                         std::string fix = "use a tokenizer.json of a supported model") const;

  const std::string& where() const { return *where_; }

 private:
  Json value_;
  std::string path_;
  const std::string* where_;
};

class JsonDocument {
 public:
  // Copies `json`. Throws Error when it is no JSON, too deep, or not UTF-8.
  JsonDocument(std::string_view json, std::string where);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonRef root() const { return {tree_->root(), "", where_}; }

 private:
  std::string where_;
  std::optional<JsonTree> tree_;
};

}  // namespace kvasir
