// Keys for tests: the key itself, and what the server knows of it.
#pragma once

#include <string>

#include "server/access/keys_file.h"

namespace kvasir::testing {

struct TestKey {
  std::string key;
  KeyEntry entry;

  std::string header() const { return "authorization: Bearer " + key + "\r\n"; }
};

inline TestKey new_key(const std::string& name, TenantShare share = {}) {
  std::string key = random_key();
  const Key256 hash = hash_of_key(key);
  return {std::move(key), {.name = name, .hash = hash, .created = "", .share = share}};
}

}  // namespace kvasir::testing
