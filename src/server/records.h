// The last finished requests, for GET /kvasir/requests/ID.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "server/generation.h"
#include "server/json_fields.h"

namespace kvasir {

struct FinishedRecord {
  std::string request_id;  // x-request-id
  std::string answer_id;   // "chatcmpl-…"
  std::string path;
  std::uint32_t tenant = 0;  // who asked
  std::int64_t created = 0;  // Unix time
  Totals totals;
  OrderedJson cache;                        // as "explain" gives it
  std::vector<std::string> finish_reasons;  // of each choice
  struct Task {
    RequestId id = 0;  // the engine's: what /slots and evictions call it
    RequestRecord record;
  };
  std::vector<Task> tasks;  // of each choice that was begun
};

OrderedJson to_json(const FinishedRecord& record);

// All methods may be called from any thread. Each tenant has room of its own: one cannot push out another's, nor find
// them.
class Records {
 public:
  explicit Records(size_t capacity) : capacity_(capacity) {}  // of each tenant

  void add(FinishedRecord record);  // the oldest goes when there is no room
  // Either id; the newest of several.
  std::optional<FinishedRecord> find(std::uint32_t tenant, const std::string& id) const;

 private:
  size_t capacity_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::deque<FinishedRecord>> records_;  // under mutex_; newest first
};

}  // namespace kvasir
