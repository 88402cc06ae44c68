#include "base/json_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/error.h"

namespace kvasir {

void JsonReader::fail(std::string_view problem, std::string fix) const {
  const std::string path = document_->tree_->path_to(value_);
  fail_input(fmt::format("{} {}", path.empty() ? "the document" : path, problem), where(), std::move(fix));
}

void JsonReader::fail(std::string_view problem) const { fail(problem, std::string(document_->kind_.fix)); }

void JsonReader::fail_inside(std::string sentence, std::string fix) const {
  const std::string path = document_->tree_->path_to(value_);
  fail_input(std::move(sentence), path.empty() ? where() : fmt::format("{}, {}", where(), path), std::move(fix));
}

void JsonReader::fail_inside(std::string sentence) const {
  fail_inside(std::move(sentence), std::string(document_->kind_.fix));
}

const std::string& JsonReader::where() const { return document_->where_; }

std::optional<JsonReader> JsonReader::find(std::string_view key) const {
  if (!is_object()) fail("is not an object");
  const std::optional<JsonValue> field = value_.find(key);
  if (!field || field->is_null()) return std::nullopt;
  return JsonReader(*field, *document_);
}

JsonReader JsonReader::get(std::string_view key) const {
  const std::optional<JsonReader> field = find(key);
  if (!field) fail_inside(fmt::format("{} is missing", key));
  return *field;
}

bool JsonReader::has_null(std::string_view key) const {
  const std::optional<JsonValue> field = value_.find(key);
  return field && field->is_null();
}

std::string_view JsonReader::text() const {
  const std::optional<std::string_view> text = value_.text();
  if (!text) fail("is not a string");
  return *text;
}

std::int64_t JsonReader::integer() const {
  const std::optional<std::int64_t> number = value_.integer();
  if (!number) fail("is not an integer");
  return *number;
}

std::int64_t JsonReader::integer(IntegerRange range) const {
  const std::int64_t number = integer();
  if (number < range.least || number > range.most) {
    fail(fmt::format("is {}, outside {}..{}", number, range.least, range.most));
  }
  return number;
}

double JsonReader::number() const {
  const std::optional<double> number = value_.number();
  if (!number || !std::isfinite(*number)) fail("is not a number");
  return *number;
}

double JsonReader::positive() const {
  const double value = number();
  if (value <= 0) fail(fmt::format("is {}, and must be positive", value));
  return value;
}

bool JsonReader::flag() const {
  const std::optional<bool> flag = value_.flag();
  if (!flag) fail("is not true or false");
  return *flag;
}

std::string_view JsonReader::text_or(std::string_view key, std::string_view otherwise) const {
  const std::optional<JsonReader> field = find(key);
  return field ? field->text() : otherwise;
}

bool JsonReader::flag_or(std::string_view key, bool otherwise) const {
  const std::optional<JsonReader> field = find(key);
  return field ? field->flag() : otherwise;
}

JsonReader::Range<JsonReader, JsonValue> JsonReader::items() const {
  if (!is_array()) fail("is not a list");
  return {value_.items(), *document_};
}

JsonReader::Range<JsonReader::Member, JsonMember> JsonReader::members() const {
  if (!is_object()) fail("is not an object");
  return {value_.members(), *document_};
}

namespace {

// What Python writes and JSON has no words for, Infinity and NaN, as texts.
std::string with_quoted_words(std::string_view json) {
  std::string out;
  bool in_text = false;
  for (size_t at = 0; at < json.size();) {
    std::string_view word = json.substr(at, 1);
    for (const std::string_view one : {std::string_view("Infinity"), std::string_view("NaN")}) {
      if (!in_text && json.substr(at).starts_with(one)) word = one;
    }
    if (word.size() > 1) {
      out += fmt::format("\"{}\"", word);
    } else {
      if (word == "\\" && in_text) word = json.substr(at, 2);
      if (word == "\"") in_text = !in_text;
      out += word;
    }
    at += word.size();
  }
  return out;
}

}  // namespace

JsonDocument::JsonDocument(std::string_view json, std::string where, JsonFileKind kind)
    : where_(std::move(where)), kind_(kind) {
  if (json.size() > kind.most_bytes) {
    fail_input(fmt::format("it has {} bytes, more than the {} that are read", json.size(), kind.most_bytes), where_,
               std::string(kind.fix));
  }
  std::string problem;
  tree_ = JsonTree::parse(json, problem);
  std::string ignored;
  if (!tree_) tree_ = JsonTree::parse(with_quoted_words(json), ignored);
  if (!tree_) fail_input("not valid JSON: " + problem, where_, "check the file, or download it again");
}

}  // namespace kvasir
