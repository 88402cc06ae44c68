// Checked access to the JSON files of a model: every value has the type and the range it must have, or an Error names
// the file, the path of the value in it, and what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace kvasir {

struct IntegerRange {
  std::int64_t least;
  std::int64_t most;
};

class JsonDocument;

// A value of a document, and valid as long as it. A key that is absent and a key that is null are the same thing, but
// to has_null.
class JsonReader {
 public:
  // The field of an object. Throws Error when this is none.
  std::optional<JsonReader> find(std::string_view key) const;
  JsonReader get(std::string_view key) const;  // Error when it is missing
  bool has_null(std::string_view key) const;

  std::string_view text() const;
  std::int64_t integer() const;
  std::int64_t integer(IntegerRange range) const;
  double number() const;    // finite
  double positive() const;  // and finite
  bool flag() const;

  // Of a field that may be missing.
  std::string_view text_or(std::string_view key, std::string_view otherwise) const;
  bool flag_or(std::string_view key, bool otherwise) const;

  bool is_text() const { return value_.is_text(); }
  bool is_array() const { return value_.is_array(); }
  bool is_object() const { return value_.is_object(); }

  struct Member;
  template <class Each, class Raw>
  class Range;
  Range<JsonReader, JsonValue> items() const;  // of an array
  Range<Member, JsonMember> members() const;   // of an object

  // Throws Error. `problem` is said of this value: "is not a color".
  [[noreturn]] void fail(std::string_view problem) const;
  [[noreturn]] void fail(std::string_view problem, std::string fix) const;
  // Throws Error with a sentence of its own, about what is in this value.
  [[noreturn]] void fail_inside(std::string sentence) const;
  [[noreturn]] void fail_inside(std::string sentence, std::string fix) const;

  const std::string& where() const;  // the file

 private:
  friend class JsonDocument;
  JsonReader(JsonValue value, const JsonDocument& document) : value_(value), document_(&document) {}

  JsonValue value_;
  const JsonDocument* document_;
};

// What files of one kind have in common.
struct JsonFileKind {
  size_t most_bytes;
  std::string_view fix;  // what errors advise where nothing better is known
};

// A parsed file. It owns what the readers point into.
class JsonDocument {
 public:
  // Copies what it needs of `json`. Throws Error when that is too long or no JSON. Infinity and NaN, which Python
  // writes, are the texts "Infinity" and "NaN".
  JsonDocument(std::string_view json, std::string where, JsonFileKind kind);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonReader root() const { return {tree_->root(), *this}; }

 private:
  friend class JsonReader;

  std::string where_;
  JsonFileKind kind_;
  std::optional<JsonTree> tree_;
};

struct JsonReader::Member {
  std::string_view key;
  JsonReader value;
};

template <class Each, class Raw>
class JsonReader::Range {
 public:
  class Iterator {
   public:
    Iterator(typename JsonValue::Range<Raw>::Iterator at, const JsonDocument& document)
        : at_(at), document_(&document) {}
    Each operator*() const;
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    typename JsonValue::Range<Raw>::Iterator at_;
    const JsonDocument* document_;
  };

  Range(JsonValue::Range<Raw> raw, const JsonDocument& document) : raw_(raw), document_(&document) {}
  size_t size() const { return raw_.size(); }
  Iterator begin() const { return {raw_.begin(), *document_}; }
  Iterator end() const { return {raw_.end(), *document_}; }

 private:
  JsonValue::Range<Raw> raw_;
  const JsonDocument* document_;
};

template <>
inline JsonReader JsonReader::Range<JsonReader, JsonValue>::Iterator::operator*() const {
  return {*at_, *document_};
}

template <>
inline JsonReader::Member JsonReader::Range<JsonReader::Member, JsonMember>::Iterator::operator*() const {
  const JsonMember member = *at_;
  return {member.key, {member.value, *document_}};
}

}  // namespace kvasir
