// JSON of strangers as a tree: read in one pass, in time that grows with the text, and given up at the first value
// beyond a limit.
//
// nlohmann's own parser recurses nowhere, but bounds nothing; with a callback it bounds, and takes time that is
// quadratic in objects. So the tree is built here, from what the parser says of each value.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/indexed_map.h"

namespace kvasir {

// What strangers write: objects keep their order, and are quick to search.
using IndexedJson = nlohmann::basic_json<IndexedMap>;

struct JsonLimits {
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
  std::size_t depth = 64;                   // later passes recurse: copies, comparisons, dump()
  std::int64_t values = 1 << 21;            // keys included
  std::int64_t containers = 1 << 18;        // objects and arrays: each takes some hundred bytes for two of text
  std::size_t keys = std::size_t{1} << 18;  // of one object
};

struct JsonRefusal {
  enum class Why { kNotJson, kTooLarge };
  Why why = Why::kNotJson;
  std::string what;  // as in "the body {}": "is nested more than 64 deep"
};

// What nlohmann's parser calls for each value, in the order of the text. Each says whether to go on.
class BoundedJsonBuilder {
 public:
  using String = IndexedJson::string_t;

  BoundedJsonBuilder(IndexedJson& root, const JsonLimits& limits) : root_(root), limits_(limits) {}

  JsonRefusal take_refusal() { return std::move(refusal_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const String& /*written*/) { return add(value); }
  bool string(String& value) { return add(std::move(value)); }
  bool binary(IndexedJson::binary_t& /*value*/) { return false; }  // not in JSON

  bool start_object(std::size_t /*size*/) { return open(IndexedJson::object()); }
  bool start_array(std::size_t /*size*/) { return open(IndexedJson::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  // Of two equal keys the last value stays.
  bool key(String& name) {
    auto& object = open_.back()->get_ref<IndexedJson::object_t&>();
    member_ = &object[std::move(name)];
    if (object.size() > limits_.keys) return refuse(fmt::format("has an object of more than {} keys", limits_.keys));
    return count();
  }

  bool parse_error(std::size_t /*position*/, const String& /*token*/, const nlohmann::json::exception& error) {
    refusal_ = {JsonRefusal::Why::kNotJson, fmt::format("is not JSON: {}", error.what())};
    return false;
  }

 private:
  bool refuse(std::string what) {
    refusal_ = {JsonRefusal::Why::kTooLarge, std::move(what)};
    return false;
  }

  bool count() {
    return ++values_ <= limits_.values || refuse(fmt::format("has more than {} values", limits_.values));
  }

  // Values do not move while something in them is open: only the innermost grows.
  IndexedJson* place(IndexedJson value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*member_ = std::move(value));
    return &open_.back()->get_ref<IndexedJson::array_t&>().emplace_back(std::move(value));
  }

  bool add(IndexedJson value) {
    place(std::move(value));
    return count();
  }

  bool open(IndexedJson container) {
    if (open_.size() == limits_.depth) return refuse(fmt::format("is nested more than {} deep", limits_.depth));
    if (++containers_ > limits_.containers) {
      return refuse(fmt::format("has more than {} objects and arrays", limits_.containers));
    }
    open_.push_back(place(std::move(container)));
    return count();
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  IndexedJson& root_;
  const JsonLimits& limits_;
  std::vector<IndexedJson*> open_;  // the outermost first
  IndexedJson* member_ = nullptr;   // of the innermost object, whose key came last
  std::int64_t values_ = 0;
  std::int64_t containers_ = 0;
  JsonRefusal refusal_;
};

inline std::variant<IndexedJson, JsonRefusal> read_bounded_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    return JsonRefusal{JsonRefusal::Why::kTooLarge,
                       fmt::format("has {} bytes, and at most {} are supported", text.size(), limits.bytes)};
  }
  IndexedJson root;
  BoundedJsonBuilder builder(root, limits);
  if (!IndexedJson::sax_parse(text.data(), text.data() + text.size(), &builder)) return builder.take_refusal();
  return root;
}

}  // namespace kvasir
