#include "base/json.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace kvasir {
namespace {

constexpr size_t kDeepest = 1024;
constexpr size_t kLongest = size_t{1} << 30;  // bytes: nodes are counted in 32 bits

}  // namespace

// What nlohmann's parser calls for each value, in the order of the text. Each says whether to go on.
class JsonBuilder {
 public:
  explicit JsonBuilder(Json::Storage& out) : out_(out) {}

  std::string take_problem() { return std::move(problem_); }

  bool null() { return add(Json::Kind::kNull, 0); }
  bool boolean(bool value) { return add(Json::Kind::kFlag, value ? 1 : 0); }
  bool number_integer(std::int64_t value) { return add(Json::Kind::kInteger, value); }
  bool number_unsigned(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return add_number(static_cast<double>(value));
    }
    return add(Json::Kind::kInteger, static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string& /*written*/) { return add_number(value); }
  bool string(const std::string& value) {
    count();
    return add_text(value);
  }
  bool binary(const nlohmann::json::binary_t& /*value*/) { return false; }  // not in JSON

  bool start_object(size_t /*size*/) { return open(Json::Kind::kObject); }
  bool start_array(size_t /*size*/) { return open(Json::Kind::kArray); }
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

  Json::Node& append(Json::Kind kind) {
    Json::Node& node = out_.nodes.emplace_back();
    node.kind = kind;
    node.end = static_cast<std::uint32_t>(out_.nodes.size());
    return node;
  }

  bool add(Json::Kind kind, std::int64_t value) {
    count();
    append(kind).integer = value;
    return true;
  }

  bool add_number(double value) {
    count();
    append(Json::Kind::kNumber).number = value;
    return true;
  }

  bool add_text(const std::string& value) {
    Json::Node& node = append(Json::Kind::kText);
    node.integer = static_cast<std::int64_t>(out_.text.size());
    node.size = static_cast<std::uint32_t>(value.size());
    out_.text += value;
    return true;
  }

  bool open(Json::Kind kind) {
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

  Json::Storage& out_;
  std::vector<std::uint32_t> open_;  // nodes of arrays and objects, the outermost first
  std::string problem_;
};

std::optional<bool> Json::flag() const {
  if (kind() != Kind::kFlag) return std::nullopt;
  return node().integer != 0;
}

std::optional<std::int64_t> Json::integer() const {
  if (kind() != Kind::kInteger) return std::nullopt;
  return node().integer;
}

std::optional<double> Json::number() const {
  if (kind() == Kind::kNumber) return node().number;
  if (kind() == Kind::kInteger) return static_cast<double>(node().integer);
  return std::nullopt;
}

std::optional<std::string_view> Json::text() const {
  if (kind() != Kind::kText) return std::nullopt;
  return std::string_view(storage_->text).substr(static_cast<size_t>(node().integer), node().size);
}

Json::Range<Json> Json::items() const {
  static const Storage kNone{{Node{Kind::kArray, 0, 1, {0}}}, {}};
  return Range<Json>(is_array() ? *this : Json(&kNone, 0));
}

Json::Range<JsonMember> Json::members() const {
  static const Storage kNone{{Node{Kind::kObject, 0, 1, {0}}}, {}};
  return Range<JsonMember>(is_object() ? *this : Json(&kNone, 0));
}

std::optional<Json> Json::find(std::string_view key) const {
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
  auto storage = std::make_unique<Json::Storage>();
  storage->text.reserve(text.size());
  JsonBuilder builder(*storage);
  if (!nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &builder)) {
    problem = builder.take_problem();
    return std::nullopt;
  }
  return JsonTree(std::move(storage));
}

}  // namespace kvasir
