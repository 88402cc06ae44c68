// Whether a server keeps what docs/tenants.md says of tenants, tried from outside: one tenant does what it can to
// take what another is guaranteed, to learn who used a public text, to count others' requests, and to take every
// place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/client/http_client.h"

namespace kvasir {

// The server has two tenants, the victim with a guarantee, and a public text.
struct PromiseOptions {
  HttpAddress address;
  std::string victim_key;
  std::string attacker_key;
  std::vector<int> public_text;        // its tokens
  std::int64_t guaranteed_tokens = 0;  // that the victim's share of the cache holds
  std::int64_t cache_tokens = 0;       // that all of it holds
};

struct PromiseReport {
  std::string promise;
  bool kept = false;
  std::string seen;
};

// Throws Error when the server cannot be asked.
std::vector<PromiseReport> try_promises(const PromiseOptions& options);

}  // namespace kvasir
