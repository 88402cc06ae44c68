// Whose blocks they are. The secret keys the hash chain, so two tenants' blocks never share a name: neither can find,
// probe or guess what the other has cached.
#pragma once

#include <cstdint>

#include "base/hash.h"

namespace kvasir {

struct Tenant {
  std::uint32_t id = 0;
  Key256 secret;  // all zero: the single tenant of a private process
};

}  // namespace kvasir
