#include "kv/lease.h"

#include <utility>

#include "kv/cache.h"

namespace kvasir {

KvLease& KvLease::operator=(KvLease&& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(state_, other.state_);
  return *this;
}

KvLease::~KvLease() {
  if (state_ != nullptr) cache_->release(*state_);
}

}  // namespace kvasir
