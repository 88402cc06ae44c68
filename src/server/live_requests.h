// Which of the engine's requests belong to which API request, for those who ask what is going on.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "base/ids.h"

namespace kvasir {

// All methods may be called from any thread.
class LiveRequests {
 public:
  struct Entry {
    std::string request_id;  // x-request-id
    size_t choice = 0;
  };

  void add(RequestId id, Entry entry) {
    const std::lock_guard lock(mutex_);
    entries_[id] = std::move(entry);
  }
  void remove(RequestId id) {
    const std::lock_guard lock(mutex_);
    entries_.erase(id);
  }
  std::map<RequestId, Entry> all() const {
    const std::lock_guard lock(mutex_);
    return entries_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<RequestId, Entry> entries_;  // under mutex_
};

}  // namespace kvasir
