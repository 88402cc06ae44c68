#include "grammar/stack_pool.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"

namespace kvasir::grammar {
namespace {

// Some 100 MB. A text nests less deep than it is long, so that only a hostile schema comes here.
constexpr std::size_t kMaxLinks = std::size_t{1} << 21;

}  // namespace

StackPool::StackPool() { stacks_.push_back({{1, 2}, 0, 0}); }

StackId StackPool::intern(std::span<const StackLink> links) {
  CHECK(!links.empty());
  // Without the sets, which only tell the stacks of one text apart. A sum, since the order of links comes from ids,
  // which differ from pool to pool.
  std::array<std::uint64_t, 2> digest{links.size(), ~links.size()};
  for (const StackLink& link : links) {
    digest[0] += mix(link.after, stacks_[link.below].digest[0], 3);
    digest[1] += mix(link.after, stacks_[link.below].digest[1], 5);
  }
  const auto [first, last] = by_digest_.equal_range(digest[0]);
  for (auto at = first; at != last; ++at) {
    if (std::ranges::equal(links_of(at->second), links)) return at->second;
  }
  if (links_.size() + links.size() > kMaxLinks) {
    throw Error(Error::Kind::kCapacity, {"the answer follows too many alternatives of its schema at once", "schema",
                                         "use fewer or more distinct alternatives"});
  }
  const auto id = static_cast<StackId>(stacks_.size());
  stacks_.push_back({digest, static_cast<std::uint32_t>(links_.size()), static_cast<std::uint32_t>(links.size())});
  links_.insert(links_.end(), links.begin(), links.end());
  by_digest_.emplace(digest[0], id);
  return id;
}

}  // namespace kvasir::grammar
