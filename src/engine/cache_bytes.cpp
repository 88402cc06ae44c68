#include "engine/cache_bytes.h"

#include <vector>

#include "base/check.h"

namespace kvasir {

void copy_blocks(KvCache& cache, KvStorage& storage) {
  for (const BlockCopy& copy : cache.take_copies()) {
    storage.copy_block(copy.group, copy.from, copy.to_group, copy.to);
  }
}

// A row moves towards the front, and no row that is still to be moved is there.
void gather_accepted(KvCache& cache, KvStorage& storage, const KvLease& lease, std::int64_t first,
                     std::span<const std::int32_t> path) {
  const auto count = static_cast<std::int32_t>(path.size());
  if (count == 0 || path.back() == count - 1) return;  // a chain lies where it should
  CHECK(!cache.has_states(lease.policy()));
  copy_blocks(cache, storage);
  const std::span<const size_t> groups = cache.groups_of(lease.policy());
  std::vector<RowMove> moves;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (cache.keeps_source(groups[i])) continue;
    const auto start = static_cast<std::int32_t>(lease.rows(i) + first);
    moves.clear();
    for (int head = 0; head < storage.layout(groups[i]).shape.heads; ++head) {
      for (std::int32_t to = 0; to < count; ++to) {
        const std::int32_t from = path[static_cast<size_t>(to)];
        if (from != to) moves.push_back({head, start + from, start + to});
      }
    }
    storage.move_rows(groups[i], lease.table(i).data(), moves);
  }
}

}  // namespace kvasir
