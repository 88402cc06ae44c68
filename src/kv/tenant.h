// Whose blocks they are. The secret keys the hash chain, so two tenants' blocks never share a name: neither can find,
// probe or guess what the other has cached.
#pragma once

#include <cstdint>

#include "base/hash.h"

namespace kvasir {

// Of the process's own work: a private process has no other, and a server numbers its tenants from 1.
inline constexpr std::uint32_t kSystemTenant = 0;

struct Tenant {
  std::uint32_t id = kSystemTenant;
  Key256 secret;  // all zero: the single tenant of a private process
};

// What a tenant may have of the pool, as shares of its blocks, and its weight among those who wait.
struct TenantShare {
  double guaranteed = 0;  // what it has cached up to this share nobody else takes; others may use what it leaves idle
  double most = 1;        // it never has more
  double weight = 1;      // of the tokens computed while several wait

  friend bool operator==(const TenantShare&, const TenantShare&) = default;
};

// What a tenant's requests did to the cache.
struct TenantStats {
  std::int64_t queried_tokens = 0;
  std::int64_t hit_tokens = 0;
  std::int64_t blocks = 0;          // it has now, held or cached, in all groups
  std::int64_t bytes = 0;           // of them
  std::int64_t evicted_blocks = 0;  // it lost
};

}  // namespace kvasir
