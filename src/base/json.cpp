#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace kvasir {
namespace {

constexpr size_t kDeepest = 1024;
constexpr size_t kLongest = size_t{1} << 30;  // bytes: nodes are counted in 32 bits
constexpr size_t kLongestKey = 64;            // bytes of a key in a path

// ".key", or ["another key"] where it could be taken for something else.
void append_key(std::string& path, std::string_view key) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; };
  if (!key.empty() && key.size() <= kLongestKey && std::ranges::all_of(key, plain)) {
    path += fmt::format("{}{}", path.empty() ? "" : ".", key);
    return;
  }
  size_t shown = std::min(key.size(), kLongestKey);
  while (shown < key.size() && (static_cast<unsigned char>(key[shown]) & 0xC0) == 0x80) --shown;  // whole characters
  path += fmt::format("[\"{}{}\"]", key.substr(0, shown), shown < key.size() ? "…" : "");
}

}  // namespace

// What nlohmann's parser calls for each value, in the order of the text. Each says whether to go on.
class JsonBuilder {
 public:
  explicit JsonBuilder(JsonValue::Storage& out) : out_(out) {}

  std::string take_problem() { return std::move(problem_); }

  bool null() { return add(JsonValue::Kind::kNull, 0); }
  bool boolean(bool value) { return add(JsonValue::Kind::kFlag, value ? 1 : 0); }
  bool number_integer(std::int64_t value) { return add(JsonValue::Kind::kInteger, value); }
  bool number_unsigned(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return add_number(static_cast<double>(value));
    }
    return add(JsonValue::Kind::kInteger, static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string& /*written*/) { return add_number(value); }
  bool string(const std::string& value) {
    count();
    return add_text(value);
  }
  bool binary(const nlohmann::json::binary_t& /*value*/) { return false; }  // not in JSON

  bool start_object(size_t /*size*/) { return open(JsonValue::Kind::kObject); }
  bool start_array(size_t /*size*/) { return open(JsonValue::Kind::kArray); }
  bool key(const std::string& value) { return add_text(value); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::json::exception& error) {
    problem_ = error.id == 406 ? fmt::format("a number too large near byte {}", position)
                               : fmt::format("it ends or makes no sense at byte {}", position);
    return false;
  }

 private:
  // One more in the array or object that is open.
  void count() {
    if (!open_.empty()) ++out_.nodes[open_.back()].size;
  }

  JsonValue::Node& append(JsonValue::Kind kind) {
    JsonValue::Node& node = out_.nodes.emplace_back();
    node.kind = kind;
    node.end = static_cast<std::uint32_t>(out_.nodes.size());
    return node;
  }

  bool add(JsonValue::Kind kind, std::int64_t value) {
    count();
    append(kind).integer = value;
    return true;
  }

  bool add_number(double value) {
    count();
    append(JsonValue::Kind::kNumber).number = value;
    return true;
  }

  bool add_text(const std::string& value) {
    JsonValue::Node& node = append(JsonValue::Kind::kText);
    node.integer = static_cast<std::int64_t>(out_.text.size());
    node.size = static_cast<std::uint32_t>(value.size());
    out_.text += value;
    return true;
  }

  bool open(JsonValue::Kind kind) {
    if (open_.size() == kDeepest) {
      problem_ = fmt::format("it is nested more than {} deep", kDeepest);
      return false;
    }
    count();
    open_.push_back(static_cast<std::uint32_t>(out_.nodes.size()));
    append(kind);
    return true;
  }

  bool close() {
    out_.nodes[open_.back()].end = static_cast<std::uint32_t>(out_.nodes.size());
    open_.pop_back();
    return true;
  }

  JsonValue::Storage& out_;
  std::vector<std::uint32_t> open_;  // nodes of arrays and objects, the outermost first
  std::string problem_;
};

std::optional<bool> JsonValue::flag() const {
  if (kind() != Kind::kFlag) return std::nullopt;
  return node().integer != 0;
}

std::optional<std::int64_t> JsonValue::integer() const {
  if (kind() != Kind::kInteger) return std::nullopt;
  return node().integer;
}

std::optional<double> JsonValue::number() const {
  if (kind() == Kind::kNumber) return node().number;
  if (kind() == Kind::kInteger) return static_cast<double>(node().integer);
  return std::nullopt;
}

std::optional<std::string_view> JsonValue::text() const {
  if (kind() != Kind::kText) return std::nullopt;
  return std::string_view(storage_->text).substr(static_cast<size_t>(node().integer), node().size);
}

JsonValue::Range<JsonValue> JsonValue::items() const {
  static const Storage kNone{{Node{Kind::kArray, 0, 1, {0}}}, {}};
  return Range<JsonValue>(is_array() ? *this : JsonValue(&kNone, 0));
}

JsonValue::Range<JsonMember> JsonValue::members() const {
  static const Storage kNone{{Node{Kind::kObject, 0, 1, {0}}}, {}};
  return Range<JsonMember>(is_object() ? *this : JsonValue(&kNone, 0));
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  for (const JsonMember member : members()) {
    if (member.key == key) return member.value;
  }
  return std::nullopt;
}

std::optional<JsonTree> JsonTree::parse(std::string_view text, std::string& problem) {
  if (text.size() > kLongest) {
    problem = fmt::format("{} bytes are more than a JSON document may have here", text.size());
    return std::nullopt;
  }
  auto storage = std::make_unique<JsonValue::Storage>();
  storage->text.reserve(text.size());
  JsonBuilder builder(*storage);
  if (!nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &builder)) {
    problem = builder.take_problem();
    return std::nullopt;
  }
  return JsonTree(std::move(storage));
}

// Nodes lie as in the text, so a value's ancestors are those whose nodes begin before it and end behind it.
std::string JsonTree::path_to(JsonValue value) const {
  std::string path;
  for (std::uint32_t at = 0; at != value.at_;) {
    const bool object = storage_->nodes[at].kind == JsonValue::Kind::kObject;
    std::uint32_t child = at + (object ? 2 : 1);
    size_t index = 0;
    for (; storage_->nodes[child].end <= value.at_; ++index) child = storage_->nodes[child].end + (object ? 1 : 0);
    if (object) {
      append_key(path, *JsonValue(storage_.get(), child - 1).text());
    } else {
      path += fmt::format("[{}]", index);
    }
    at = child;
  }
  return path;
}

}  // namespace kvasir
