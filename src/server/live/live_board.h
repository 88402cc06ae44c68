// What is known of the cache and of the requests while somebody watches, and what of it each of them has not seen
// yet.
//
// A watcher who is slow misses nothing that still is so: its next piece has every block that changed since its last.
// What only happened (events) is kept for a while, and how many it missed is told.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_watch.h"
#include "server/access/tenants.h"
#include "server/records.h"

namespace kvasir {

// Whom something is written for, and what they have seen.
struct LiveViewer {
  explicit LiveViewer(std::shared_ptr<const Caller> who) : caller(std::move(who)) {}

  bool sees_all() const { return caller->sees == KeyEntry::Sees::kAll; }
  bool sees(OwnerId owner) const { return sees_all() || owner == caller->id + 1; }

  std::shared_ptr<const Caller> caller;
  bool begun = false;
  std::uint64_t version = 0;             // of the board
  std::uint64_t event = 0;               // the first that it has not seen
  std::uint64_t finished = 0;            // of Records: likewise
  std::vector<std::vector<bool>> shown;  // by group and block
  std::vector<WatchedGroup> groups;      // as it was told
  std::string requests;                  // as it was told
  std::chrono::steady_clock::time_point numbers_at{};
};

// What a viewer calls a block. Its place would tell a tenant what others take: it is for operators, and tenants see
// a permutation of their own.
std::uint64_t cell_number(const Caller& caller, size_t group, BlockId block);

// A short name that is fit for a path: the beginning of the block's key.
std::string short_key(const Key256& key);
std::optional<std::uint64_t> parse_short_key(std::string_view text);

class LiveBoard {
 public:
  static constexpr size_t kKeptEvents = 8192;
  static constexpr size_t kSentEvents = 2048;  // at once

  void apply(EngineLook look);
  void clear();

  // The fields of a JSON object, without its braces, each followed by a comma; empty: nothing is new.
  std::string blocks_for(LiveViewer& viewer) const;
  std::string events_for(LiveViewer& viewer) const;
  std::string requests_for(LiveViewer& viewer) const;
  double now() const { return now_; }
  bool busy() const { return !requests_.empty() || changed_; }  // the last look brought something

 private:
  struct Row {
    WatchedBlock block;
    std::uint64_t version = 0;
  };

  std::string groups_for(LiveViewer& viewer) const;
  void write_row(std::string& out, const LiveViewer& viewer, const Row& row) const;

  std::vector<WatchedGroup> groups_;
  std::vector<std::vector<Row>> rows_;  // by group and block
  std::deque<CacheEvent> events_;
  std::uint64_t first_event_ = 0;  // the number of the oldest that is kept
  std::vector<WatchedRequest> requests_;
  std::uint64_t version_ = 0;
  double now_ = 0;
  bool changed_ = false;
};

}  // namespace kvasir
