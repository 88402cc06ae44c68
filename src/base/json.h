// JSON documents to read: a tree in one piece of memory, in the order of the text, for files of many MB.
//
// A value is a view into its tree and lives no longer. Of two equal keys the first is found. What is not a JSON
// document, not UTF-8, nested more than 1,024 deep, or a number that no double holds is no tree at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

struct JsonMember;

class JsonValue {
 public:
  enum class Kind : std::uint8_t { kNull, kFlag, kInteger, kNumber, kText, kArray, kObject };

  Kind kind() const { return node().kind; }
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_text() const { return kind() == Kind::kText; }
  bool is_array() const { return kind() == Kind::kArray; }
  bool is_object() const { return kind() == Kind::kObject; }

  std::optional<bool> flag() const;
  std::optional<std::int64_t> integer() const;  // a number that is written as one, and fits
  std::optional<double> number() const;         // integers too
  std::optional<std::string_view> text() const;

  // What an array or an object holds; in anything else, nothing.
  template <class Value>
  class Range;
  Range<JsonValue> items() const;
  Range<JsonMember> members() const;
  std::optional<JsonValue> find(std::string_view key) const;

 private:
  friend class JsonTree;
  friend class JsonBuilder;

  // One value. Those that it holds follow it, of an object each behind its key.
  struct Node {
    Kind kind = Kind::kNull;
    std::uint32_t size = 0;  // of items or members, or bytes of text
    std::uint32_t end = 0;   // the first node behind it and all that it holds
    union {
      std::int64_t integer = 0;  // and 0 or 1 of a flag, and where its text begins
      double number;
    };
  };
  struct Storage {
    std::vector<Node> nodes;
    std::string text;  // of all strings, one behind the other
  };

  JsonValue(const Storage* storage, std::uint32_t at) : storage_(storage), at_(at) {}
  const Node& node() const { return storage_->nodes[at_]; }

  const Storage* storage_;
  std::uint32_t at_;
};

struct JsonMember {
  std::string_view key;
  JsonValue value;
};

template <class Value>
class JsonValue::Range {
 public:
  class Iterator {
   public:
    explicit Iterator(JsonValue at) : at_(at) {}
    Value operator*() const;
    Iterator& operator++();
    bool operator!=(const Iterator& other) const { return at_.at_ != other.at_.at_; }

   private:
    JsonValue at_;
  };

  explicit Range(JsonValue of) : of_(of) {}
  size_t size() const { return of_.node().size; }
  Iterator begin() const { return Iterator({of_.storage_, of_.at_ + 1}); }
  Iterator end() const { return Iterator({of_.storage_, of_.node().end}); }

 private:
  JsonValue of_;
};

class JsonTree {
 public:
  // Nothing, and `problem` says what is wrong and where, when `text` is not such a document.
  static std::optional<JsonTree> parse(std::string_view text, std::string& problem);

  JsonValue root() const { return {storage_.get(), 0}; }

  // From the root to one of this tree's values, as in a.b[2]; the root's is empty.
  std::string path_to(JsonValue value) const;

 private:
  explicit JsonTree(std::unique_ptr<const JsonValue::Storage> storage) : storage_(std::move(storage)) {}

  std::unique_ptr<const JsonValue::Storage> storage_;
};

template <>
inline JsonValue JsonValue::Range<JsonValue>::Iterator::operator*() const {
  return at_;
}

template <>
inline JsonValue::Range<JsonValue>::Iterator& JsonValue::Range<JsonValue>::Iterator::operator++() {
  at_.at_ = at_.node().end;
  return *this;
}

template <>
inline JsonMember JsonValue::Range<JsonMember>::Iterator::operator*() const {
  return {*at_.text(), {at_.storage_, at_.at_ + 1}};
}

template <>
inline JsonValue::Range<JsonMember>::Iterator& JsonValue::Range<JsonMember>::Iterator::operator++() {
  at_.at_ = at_.storage_->nodes[at_.at_ + 1].end;
  return *this;
}

}  // namespace kvasir
