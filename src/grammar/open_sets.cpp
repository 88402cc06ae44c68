#include "grammar/open_sets.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace kvasir::grammar {
namespace {

constexpr std::uint16_t kEnd = 256;

// 16 MB, for a set of a million bytes. Few answers are so long in all.
constexpr std::size_t kMaxNodes = std::size_t{1} << 20;

bool is_space(std::uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

}  // namespace

std::uint32_t OpenSets::child(std::uint32_t node, std::uint16_t byte) const {
  std::uint32_t at = nodes_[node].child;
  while (at != 0 && nodes_[at].byte != byte) at = nodes_[at].next;
  return at;
}

std::uint32_t OpenSets::add(std::uint32_t parent, std::uint16_t byte) {
  if (nodes_.size() >= kMaxNodes) {
    throw Error(Error::Kind::kCapacity,
                {"the elements of an array with \"uniqueItems\" are longer than a million bytes in all", "schema",
                 "ask for fewer or shorter elements"});
  }
  if (nodes_.empty()) nodes_.emplace_back();
  const auto id = static_cast<std::uint32_t>(nodes_.size());
  Node node{parent, 0, 0, byte};
  if (parent != 0) node.next = std::exchange(nodes_[parent].child, id);
  nodes_.push_back(node);
  return id;
}

std::uint32_t OpenSets::enter() {
  if (now_.count > 0 && now_.sets[now_.count - 1].depth == now_.depth) return now_.depth;
  if (now_.count == kMost) return 0;
  if (now_.count == 0) now_ = {.sets = {}, .depth = 1};
  const std::uint32_t root = add(0, kEnd);
  now_.sets[now_.count++] = {.depth = now_.depth, .root = root};
  return now_.depth;
}

void OpenSets::keep(std::span<const std::uint32_t> depths) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < now_.count; ++i) {
    if (std::ranges::find(depths, now_.sets[i].depth) != depths.end()) now_.sets[count++] = now_.sets[i];
  }
  now_.count = count;
}

void OpenSets::extend(Set& set, std::uint8_t byte) {
  if (set.phase != Phase::kInside) return;
  const std::uint32_t next = child(set.at, byte);
  set.at = next != 0 ? next : add(set.at, byte);
}

void OpenSets::finish(Set& set) {
  if (set.phase == Phase::kVoid) return;
  set.phase = child(set.at, kEnd) != 0 ? Phase::kVoid : Phase::kBefore;
  if (set.phase == Phase::kBefore) add(set.at, kEnd);
}

void OpenSets::push(std::uint8_t byte) {
  if (now_.count == 0) return;
  for (std::uint32_t i = 0; i + 1 < now_.count; ++i) extend(now_.sets[i], byte);
  Set& set = now_.sets[now_.count - 1];
  if (now_.in_string) {
    now_.in_string = byte != '"' || now_.is_escaped;
    now_.is_escaped = byte == '\\' && !now_.is_escaped;
    return extend(set, byte);
  }
  now_.in_string = byte == '"';
  const bool is_own = now_.depth == set.depth;  // no part of a deeper value
  if (byte == '[' || byte == '{') ++now_.depth;
  if (byte == ']' || byte == '}') --now_.depth;
  if (is_own && byte == ']') {
    --now_.count;
  } else if (is_own && byte == ',') {
    finish(set);
  } else if (is_own && is_space(byte)) {
    if (set.phase == Phase::kInside) set.phase = Phase::kAfter;
  } else {
    if (set.phase == Phase::kBefore) {
      set.phase = Phase::kInside;
      set.at = set.root;
      set.new_from = static_cast<std::uint32_t>(nodes_.size());
    }
    extend(set, byte);
  }
}

bool OpenSets::has_element() const {
  if (now_.count == 0) return false;
  const Set& set = now_.sets[now_.count - 1];
  return set.phase == Phase::kInside && child(set.at, kEnd) != 0;
}

bool OpenSets::is_bound(const Set& set) const {
  if (set.phase == Phase::kBefore) return nodes_[set.root].child != 0;
  return set.phase == Phase::kInside && set.at < set.new_from;
}

bool OpenSets::is_bound() const {
  return std::ranges::any_of(std::span(now_.sets).first(now_.count),
                             [this](const Set& set) { return is_bound(set); });
}

OpenSets::Bytes OpenSets::binding() const {
  Bytes out;
  for (const Set& set : std::span(now_.sets).first(now_.count)) {
    if (!is_bound(set)) continue;
    std::uint32_t at = nodes_[set.phase == Phase::kBefore ? set.root : set.at].child;
    for (; at != 0; at = nodes_[at].next) {
      if (nodes_[at].byte != kEnd) out.set(nodes_[at].byte);
    }
  }
  if (!now_.in_string) {
    for (const char c : std::string_view(",]} \n\t\r")) out.set(static_cast<std::uint8_t>(c));
  }
  return out;
}

bool OpenSets::skips(std::uint8_t byte) const { return !now_.in_string && is_space(byte); }

OpenSets::Mark OpenSets::mark() const {
  Mark mark;
  mark.state = now_;
  mark.nodes = static_cast<std::uint32_t>(nodes_.size());
  return mark;
}

// The newest child comes first: what was added last is taken off first.
void OpenSets::rewind(const Mark& mark) {
  for (; nodes_.size() > mark.nodes; nodes_.pop_back()) {
    const Node& node = nodes_.back();
    if (node.parent != 0) nodes_[node.parent].child = node.next;
  }
  now_ = mark.state;
}

void OpenSets::settle() {
  if (now_.count == 0) nodes_ = {};
}

}  // namespace kvasir::grammar
