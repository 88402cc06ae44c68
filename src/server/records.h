// The last finished requests, for GET /kvasir/requests/ID.
#pragma once

#include <deque>
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
  std::int64_t created = 0;  // Unix time
  Totals totals;
  OrderedJson cache;                        // as "explain" gives it
  std::vector<std::string> finish_reasons;  // of each choice
};

OrderedJson to_json(const FinishedRecord& record);

// All methods may be called from any thread.
class Records {
 public:
  explicit Records(size_t capacity) : capacity_(capacity) {}

  void add(FinishedRecord record);                                  // the oldest goes when there is no room
  std::optional<FinishedRecord> find(const std::string& id) const;  // either id; the newest of several

 private:
  size_t capacity_;
  mutable std::mutex mutex_;
  std::deque<FinishedRecord> records_;  // under mutex_; newest first
};

}  // namespace kvasir
