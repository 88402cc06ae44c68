// OpenSets: which elements the open sets of a text have. A set is an array that must not have an element twice.
//
// The grammar spells each element of a set in one way (schema_compiler.h), so that equal elements are equal texts.
// Every open set has a trie of its elements. The element that is being written is a path in it, and new nodes are
// added where no earlier element goes along: from there on it cannot become one of them.
//
// What is open is found in the text itself, which is JSON: strings, brackets and commas. So all ways of reading the
// text (matcher.h) share one of these, whichever of them ask for a set.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <vector>

namespace kvasir::grammar {

class OpenSets {
 public:
  // So many nested sets are followed. A schema has half as many at most; the rest is for ways that were given up.
  static constexpr std::size_t kMost = 8;

  using Bytes = std::bitset<256>;

 private:
  enum class Phase : std::uint8_t {
    kBefore,  // an element may begin
    kInside,  // one is being written
    kAfter,   // white space came after it
    kVoid,    // an element came twice: no way of reading the text asks for a set here
  };
  struct Set {
    std::uint32_t depth = 0;  // brackets around its elements, from the outermost set on
    std::uint32_t root = 0;
    std::uint32_t at = 0;        // kInside, kAfter: the node of the element so far
    std::uint32_t new_from = 0;  // nodes from here on were added for this element
    Phase phase = Phase::kBefore;
  };
  struct State {
    std::array<Set, kMost> sets;  // the innermost last
    std::uint32_t count = 0;
    std::uint32_t depth = 0;
    bool in_string = false;
    bool is_escaped = false;  // a backslash came last
  };
  struct Node {
    std::uint32_t parent = 0, child = 0, next = 0;  // 0: none; the newest child comes first
    std::uint16_t byte = 0;                         // or kEnd: an element ends at the parent
  };

 public:
  class Mark {
    friend class OpenSets;
    State state;
    std::uint32_t nodes = 0;
  };

  // One more byte of the text.
  void push(std::uint8_t byte);

  // The next element, if one comes, is of a set. Returns the set's depth; 0, with nothing changed: kMost are open.
  std::uint32_t enter();

  // Forgets all sets but those of these depths.
  void keep(std::span<const std::uint32_t> depths);

  bool is_open() const { return now_.count > 0; }

  // The innermost set has the element that the text ends with.
  bool has_element() const;

  // The element that comes next, or what is there of it, may still become one that its set has.
  bool is_bound() const;

  // Bytes with which it still may, and those that are no part of an element.
  Bytes binding() const;

  // White space between values, which says nothing of them.
  bool skips(std::uint8_t byte) const;

  // Going back: marks of a text stay good while it grows, until settle() or a rewind to before them.
  Mark mark() const;
  void rewind(const Mark& mark);

  // Gives back memory that only marks need.
  void settle();

 private:
  void extend(Set& set, std::uint8_t byte);
  void finish(Set& set);
  bool is_bound(const Set& set) const;
  std::uint32_t child(std::uint32_t node, std::uint16_t byte) const;
  std::uint32_t add(std::uint32_t parent, std::uint16_t byte);

  State now_;
  std::vector<Node> nodes_;  // of all sets; the first is none
};

}  // namespace kvasir::grammar
