// The last finished requests, for GET /kvasir/requests/ID.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/access/tenants.h"
#include "server/answer/generation.h"
#include "server/api/json_fields.h"

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
    std::uint64_t number = 0;  // task_number(): what /slots and evictions call it
    RequestRecord record;
    RequestId task = 0;
  };
  static constexpr size_t kMostTasks = 16;
  std::vector<Task> tasks;  // of the first choices that were begun
};

OrderedJson to_json(const FinishedRecord& record);

// All methods may be called from any thread. Each tenant has room of its own: one cannot push out another's, nor find
// them.
class Records {
 public:
  struct Limits {
    size_t records = 1024;
    size_t bytes = size_t{16} << 20;
  };

  explicit Records(Limits of_each_tenant) : limits_(of_each_tenant) {}

  // The oldest go when there is no room. One that is larger than all the room is not kept.
  void add(const FinishedRecord& record);
  // Its JSON, by either id; the newest of several.
  std::optional<std::string> find(std::uint32_t tenant, const std::string& id) const;

  size_t bytes(std::uint32_t tenant) const;

  // Of the last finished requests that the caller may see, those from number `from` on and at most `most`: in short,
  // as JSON objects between commas, the oldest first. Moves `from` behind them.
  std::string told_since(std::uint64_t& from, const Caller& caller, size_t most) const;

 private:
  void add_brief(const FinishedRecord& record);

  // A record as text: parsed, it takes several times the room, which the limit could not count.
  struct Kept {
    std::string request_id;
    std::string answer_id;
    std::string json;

    size_t bytes() const { return sizeof *this + request_id.size() + answer_id.size() + json.size(); }
  };
  // In short, for those who watch: no text of a prompt.
  static constexpr size_t kMostBriefs = 256;
  struct Brief {
    std::uint32_t tenant = 0;
    std::vector<RequestId> tasks;
    std::string json;  // without its first brace and its tasks
  };
  struct TenantRecords {
    std::deque<Kept> records;  // newest first
    size_t bytes = 0;
  };

  Limits limits_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, TenantRecords> by_tenant_;  // under mutex_
  std::deque<Brief> briefs_;                          // under mutex_: oldest first
  std::uint64_t first_brief_ = 0;                     // under mutex_: the number of the oldest
};

}  // namespace kvasir
