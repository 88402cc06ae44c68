// Checked access to the JSON files beside a model: every value has the type and the range it must have, or an
// Error says which key of which file has not.
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace kvasir {

struct IntegerRange {
  std::int64_t least;
  std::int64_t most;
};

// One JSON object. A key that is absent and a key that is null are the same thing, but to has_null.
class JsonReader {
 public:
  using Element = simdjson::dom::element;
  static constexpr const char* kFixFile = "check the file, or download it again";

  JsonReader(simdjson::dom::object object, std::string where) : object_(object), where_(std::move(where)) {}

  [[noreturn]] void fail(std::string what, std::string fix = kFixFile) const {
    fail_input(std::move(what), where_, std::move(fix));
  }

  const std::string& where() const { return where_; }

  std::optional<Element> find(std::string_view key) const {
    Element value;
    if (object_.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
    return value;
  }

  bool has_null(std::string_view key) const {
    Element value;
    return object_.at_key(key).get(value) == simdjson::SUCCESS && value.is_null();
  }

  std::int64_t as_integer(Element value, std::string_view key, IntegerRange range) const {
    std::int64_t number = 0;
    if (value.get_int64().get(number) != simdjson::SUCCESS) fail(fmt::format("{} is not an integer", key));
    if (number < range.least || number > range.most) {
      fail(fmt::format("{} is {}, outside {}..{}", key, number, range.least, range.most));
    }
    return number;
  }

  // `fallback` 0: the key must be there.
  std::int64_t integer(std::string_view key, IntegerRange range, std::int64_t fallback = 0) const {
    const std::optional<Element> value = find(key);
    if (value) return as_integer(*value, key, range);
    if (fallback == 0) fail(fmt::format("{} is missing", key));
    return fallback;
  }

  int size(std::string_view key, std::int64_t most, std::int64_t fallback = 0) const {
    return static_cast<int>(integer(key, {1, most}, fallback));
  }

  // A positive, finite number. Without `fallback` the key must be there.
  double positive(std::string_view key, std::optional<double> fallback = std::nullopt) const {
    const std::optional<Element> value = find(key);
    if (!value && !fallback) fail(fmt::format("{} is missing", key));
    if (!value) return *fallback;
    double number = 0;
    if (value->get_double().get(number) != simdjson::SUCCESS) fail(fmt::format("{} is not a number", key));
    if (!std::isfinite(number) || number <= 0) {
      fail(fmt::format("{} is {}, and must be positive", key, number));
    }
    return number;
  }

  std::optional<bool> flag(std::string_view key) const {
    const std::optional<Element> value = find(key);
    bool set = false;
    if (!value) return std::nullopt;
    if (value->get_bool().get(set) != simdjson::SUCCESS) fail(fmt::format("{} is not true or false", key));
    return set;
  }

  std::optional<std::string_view> text(std::string_view key) const {
    const std::optional<Element> value = find(key);
    std::string_view string;
    if (!value) return std::nullopt;
    if (value->get_string().get(string) != simdjson::SUCCESS) fail(fmt::format("{} is not a string", key));
    return string;
  }

  std::optional<JsonReader> object(std::string_view key) const {
    const std::optional<Element> value = find(key);
    simdjson::dom::object inner;
    if (!value) return std::nullopt;
    if (value->get_object().get(inner) != simdjson::SUCCESS) fail(fmt::format("{} is not an object", key));
    return JsonReader(inner, fmt::format("{}, {}", where_, key));
  }

  // To walk over all keys and values.
  simdjson::dom::object entries() const { return object_; }

  std::optional<simdjson::dom::array> array(std::string_view key) const {
    const std::optional<Element> value = find(key);
    simdjson::dom::array items;
    if (!value) return std::nullopt;
    if (value->get_array().get(items) != simdjson::SUCCESS) fail(fmt::format("{} is not a list", key));
    return items;
  }

 private:
  simdjson::dom::object object_;
  std::string where_;
};

// A parsed file. The parser owns what the readers point into: they live no longer than this.
class JsonDocument {
 public:
  static constexpr size_t kLargest = 16 << 20;

  JsonDocument(std::string_view json, const std::string& where) {
    if (json.size() > kLargest) {
      fail_input(fmt::format("{} bytes are too many for a config", json.size()), where, JsonReader::kFixFile);
    }
    simdjson::dom::object root;
    JsonReader::Element parsed;
    if (const auto error = parser_.parse(json.data(), json.size()).get(parsed); error != simdjson::SUCCESS) {
      fail_input(fmt::format("not valid JSON: {}", simdjson::error_message(error)), where, JsonReader::kFixFile);
    }
    if (parsed.get_object().get(root) != simdjson::SUCCESS) {
      fail_input("not a JSON object", where, JsonReader::kFixFile);
    }
    root_.emplace(root, where);
  }

  const JsonReader& root() const { return *root_; }

 private:
  simdjson::dom::parser parser_;
  std::optional<JsonReader> root_;
};

}  // namespace kvasir
