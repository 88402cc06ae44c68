#include "text/byte_trie.h"

#include <algorithm>

namespace kvasir {
namespace {

// The entries that share the first `depth` bytes, which lead to one node.
struct Group {
  std::size_t begin;
  std::size_t end;
  std::size_t depth;
};

}  // namespace

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> entries) {
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  std::ranges::stable_sort(entries, {}, [](const auto& entry) { return entry.first; });
  nodes_.emplace_back();
  labels_.push_back(0);
  std::vector<Group> level{{0, entries.size(), 0}};
  for (Node node = 0; !level.empty();) {
    std::vector<Group> next;
    for (const Group& group : level) {
      std::size_t at = group.begin;
      for (; at < group.end && entries[at].first.size() == group.depth; ++at) nodes_[node].value = entries[at].second;
      nodes_[node].children.first = static_cast<std::uint32_t>(nodes_.size());
      while (at < group.end) {
        const char byte = entries[at].first[group.depth];
        const std::size_t begin = at;
        while (at < group.end && entries[at].first[group.depth] == byte) ++at;
        nodes_.emplace_back();
        labels_.push_back(static_cast<unsigned char>(byte));
        next.push_back({begin, at, group.depth + 1});
        ++nodes_[node].children.count;
      }
      ++node;
    }
    level = std::move(next);
  }
}

ByteTrie::Node ByteTrie::walk(Node node, std::string_view text) const {
  for (const char c : text) {
    node = step(node, c);
    if (node == kNone) return kNone;
  }
  return node;
}

}  // namespace kvasir
