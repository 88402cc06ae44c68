#include "kv/lease.h"

#include <utility>

#include "kv/cache.h"

namespace kvasir {

KvLease& KvLease::operator=(KvLease&& other) noexcept {
  KvLease taken(std::move(other));  // then lets go at once of what this one held
  std::swap(cache_, taken.cache_);
  std::swap(state_, taken.state_);
  return *this;
}

KvLease::~KvLease() {
  if (state_ != nullptr) cache_->release(*state_);
}

}  // namespace kvasir
