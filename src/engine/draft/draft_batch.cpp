#include "engine/draft/draft_batch.h"

#include "engine/cache_bytes.h"

namespace kvasir {

void build_draft_batch(std::span<const PassRows> rows, KvCache& cache, KvStorage& storage, Batch& batch) {
  batch.clear(cache.groups());
  for (const PassRows& one : rows) {
    const int first = batch.rows();
    const int count = static_cast<int>(one.tokens.size());
    batch.tokens.insert(batch.tokens.end(), one.tokens.begin(), one.tokens.end());
    for (int i = 0; i < count; ++i) batch.positions.push_back(one.start + i);
    const std::span<const std::size_t> groups = cache.groups_of(one.lease->policy());
    for (std::size_t i = 0; i < groups.size(); ++i) {
      batch.sequences[groups[i]].push_back({one.lease->table(i).data(), one.start, first, count});
    }
    if (one.guesses) batch.logit_rows.push_back(batch.rows() - 1);
  }
  copy_blocks(cache, storage);
}

}  // namespace kvasir
