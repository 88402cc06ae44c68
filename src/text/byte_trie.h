// A set of strings with a number each, to be found at the beginning of a text: all of them that are there, in one
// walk.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace kvasir {

// Nodes lie in the order of their depth, the children of one side by side: a step is a search in a few bytes.
// Constant once built.
class ByteTrie {
 public:
  using Node = std::uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = UINT32_MAX;

  // Of equal strings the last counts; empty ones are left out. REQUIRES: values of 0 and more, and less than 2^31
  // bytes in all.
  explicit ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> entries);

  // The child of a node, or kNone.
  Node step(Node node, char byte) const {
    const Range children = nodes_[node].children;
    const void* found = std::memchr(labels_.data() + children.first, byte, children.count);
    if (found == nullptr) return kNone;
    return static_cast<Node>(static_cast<const unsigned char*>(found) - labels_.data());
  }
  Node walk(Node node, std::string_view text) const;

  // The number of the string that ends at a node; -1 where none does.
  std::int32_t value(Node node) const { return nodes_[node].value; }

 private:
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  struct NodeData {
    Range children;
    std::int32_t value = -1;
  };

  std::vector<NodeData> nodes_;
  std::vector<unsigned char> labels_;  // of each node: the byte that leads to it
};

}  // namespace kvasir
