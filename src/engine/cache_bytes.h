// What was decided of the cache, done to its bytes.
#pragma once

#include <cstdint>
#include <span>

#include "backend/kv_storage.h"
#include "kv/cache.h"
#include "kv/lease.h"

namespace kvasir {

// The copies that must happen before the next rows are written, or moved.
void copy_blocks(KvCache& cache, KvStorage& storage);

// Of the rows of a draft, which lie from row `first` behind the lease's own on, those of the accepted path move
// together, each to the place where plain decoding would have written it: with its codes as they are, which are what
// it would have written, since a row is of a position and not of a place. `path`: rows of the draft, ascending.
// REQUIRES: no group of the lease's policy keeps states.
void gather_accepted(KvCache& cache, KvStorage& storage, const KvLease& lease, std::int64_t first,
                     std::span<const std::int32_t> path);

}  // namespace kvasir
