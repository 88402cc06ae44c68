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
    std::uint64_t number = 0;  // task_number(): what /slots and evictions call it
    RequestRecord record;
  };
  static constexpr size_t kMostTasks = 16;
  std::vector<Task> tasks;  // of the first choices that were begun

  size_t bytes() const;  // of memory, nearly
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
  void add(FinishedRecord record);
  // Either id; the newest of several.
  std::optional<FinishedRecord> find(std::uint32_t tenant, const std::string& id) const;

  size_t bytes(std::uint32_t tenant) const;

 private:
  struct Shelf {
    std::deque<FinishedRecord> records;  // newest first
    size_t bytes = 0;
  };

  Limits limits_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, Shelf> shelves_;  // under mutex_
};

}  // namespace kvasir
