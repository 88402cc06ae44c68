// Who may use the server, and whose cache a request reads.
//
// Nobody's key ever reaches the cache: the secret that keys a tenant's blocks is derived from the server's secret and
// the tenant's name, so a client can neither choose it nor learn it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "kv/tenant.h"
#include "server/access/admission.h"
#include "server/access/keys_file.h"
#include "server/api/api_types.h"

namespace kvasir {

// A tenant as one of its requests knows it: unchanged by a reload, for as long as the request lasts.
struct Caller {
  std::uint32_t id = kSystemTenant + 1;  // and on, dense; one name has one id for as long as the process lives
  std::string name;
  Key256 secret;
  TenantShare share;
  KeyEntry::Sees sees = KeyEntry::Sees::kOwn;
  std::shared_ptr<Admission> admission;
};

// What this tenant calls one of the engine's requests. The engine counts everybody's, so its own numbers would tell a
// tenant how much others ask: they are for operators. Others see them under a permutation of their own.
std::uint64_t task_number(const Caller& caller, RequestId id);

// Whose blocks a request reads and writes. No two pairs of tenant and space have the same secret.
Tenant cache_owner(const Caller& caller, const CacheSpace& space);

// All methods may be called from any thread.
class Tenants {
 public:
  // nullopt: no keys, one tenant, everybody, with a secret that ends with the process. `places`: for the requests of
  // each.
  Tenants(const std::optional<KeysFile>& keys, std::int64_t places);

  // From now on these and only these. What others have running goes on.
  void replace(const KeysFile& keys);

  bool open() const;  // no keys are asked for

  // Whose key this is; null: nobody's. Takes as long whoever it is.
  std::shared_ptr<const Caller> find(std::string_view key) const;

  // All there ever were, in the order of their ids. Those whose key is gone have no guarantee any more.
  std::vector<std::shared_ptr<const Caller>> all() const;

 private:
  struct KeySlot {
    Key256 hash;
    std::shared_ptr<const Caller> caller;
  };
  std::int64_t places_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Caller>> callers_;     // under mutex_; in the order of their ids
  std::map<std::string, std::uint32_t> ids_;               // under mutex_
  std::shared_ptr<const std::vector<KeySlot>> key_slots_;  // under mutex_; null: open
};

}  // namespace kvasir
