// Checked access to the JSON files beside a model: every value has the type and the range it must have, or an
// Error says which key of which file has not.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace kvasir {

struct IntegerRange {
  std::int64_t least;
  std::int64_t most;
};

// One JSON object. A key that is absent and a key that is null are the same thing, but to has_null.
class JsonReader {
 public:
  static constexpr const char* kFixFile = "check the file, or download it again";

  JsonReader(Json object, std::string where) : object_(object), where_(std::move(where)) {}

  [[noreturn]] void fail(std::string what, std::string fix = kFixFile) const {
    fail_input(std::move(what), where_, std::move(fix));
  }

  const std::string& where() const { return where_; }

  std::optional<Json> find(std::string_view key) const {
    const std::optional<Json> value = object_.find(key);
    return value && !value->is_null() ? value : std::nullopt;
  }

  bool has_null(std::string_view key) const {
    const std::optional<Json> value = object_.find(key);
    return value && value->is_null();
  }

  std::int64_t as_integer(Json value, std::string_view key, IntegerRange range) const {
    const std::optional<std::int64_t> number = value.integer();
    if (!number) fail(fmt::format("{} is not an integer", key));
    if (*number < range.least || *number > range.most) {
      fail(fmt::format("{} is {}, outside {}..{}", key, *number, range.least, range.most));
    }
    return *number;
  }

  // `fallback` 0: the key must be there.
  std::int64_t integer(std::string_view key, IntegerRange range, std::int64_t fallback = 0) const {
    const std::optional<Json> value = find(key);
    if (value) return as_integer(*value, key, range);
    if (fallback == 0) fail(fmt::format("{} is missing", key));
    return fallback;
  }

  int size(std::string_view key, std::int64_t most, std::int64_t fallback = 0) const {
    return static_cast<int>(integer(key, {1, most}, fallback));
  }

  // A positive, finite number. Without `fallback` the key must be there.
  double positive(std::string_view key, std::optional<double> fallback = std::nullopt) const {
    const std::optional<Json> value = find(key);
    if (!value && !fallback) fail(fmt::format("{} is missing", key));
    if (!value) return *fallback;
    const std::optional<double> number = value->number();
    if (!number) fail(fmt::format("{} is not a number", key));
    if (!std::isfinite(*number) || *number <= 0) {
      fail(fmt::format("{} is {}, and must be positive", key, *number));
    }
    return *number;
  }

  std::optional<bool> flag(std::string_view key) const {
    const std::optional<Json> value = find(key);
    if (!value) return std::nullopt;
    if (!value->flag()) fail(fmt::format("{} is not true or false", key));
    return value->flag();
  }

  std::optional<std::string_view> text(std::string_view key) const {
    const std::optional<Json> value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_text()) fail(fmt::format("{} is not a string", key));
    return value->text();
  }

  std::optional<JsonReader> object(std::string_view key) const {
    const std::optional<Json> value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_object()) fail(fmt::format("{} is not an object", key));
    return JsonReader(*value, fmt::format("{}, {}", where_, key));
  }

  // To walk over all keys and values.
  Json::Range<JsonMember> entries() const { return object_.members(); }

  std::optional<Json::Range<Json>> array(std::string_view key) const {
    const std::optional<Json> value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_array()) fail(fmt::format("{} is not a list", key));
    return value->items();
  }

 private:
  Json object_;
  std::string where_;
};

// A parsed file. It owns what the readers point into: they live no longer than this.
class JsonDocument {
 public:
  static constexpr size_t kLargest = 16 << 20;

  JsonDocument(std::string_view json, const std::string& where) {
    if (json.size() > kLargest) {
      fail_input(fmt::format("{} bytes are too many for a config", json.size()), where, JsonReader::kFixFile);
    }
    std::string problem;
    tree_ = JsonTree::parse(json, problem);
    if (!tree_) fail_input("not valid JSON: " + problem, where, JsonReader::kFixFile);
    if (!tree_->root().is_object()) fail_input("not a JSON object", where, JsonReader::kFixFile);
    root_.emplace(tree_->root(), where);
  }

  const JsonReader& root() const { return *root_; }

 private:
  std::optional<JsonTree> tree_;
  std::optional<JsonReader> root_;
};

}  // namespace kvasir
