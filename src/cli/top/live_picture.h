// What GET /kvasir/live tells, put together: the cache now, and the requests and rates of the last ten minutes. Only
// this remembers them: the server does not.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "engine/engine_watch.h"

namespace kvasir {

// Times are seconds on the caller's clock.

struct LiveCell {
  BlockSight sight = BlockSight::kFree;
  size_t group = 0;
  std::int64_t refs = 0;
  std::int64_t tenant = -1;  // -1: nobody's in particular
  double used = 0;           // when it last was
  std::string change;        // the last event that was seen: "taken", "hit", "evicted", …
  double changed = -1e9;
};

// One stretch of a request's life.
struct LiveStretch {
  double from = 0;
  double to = 0;
  std::string phase;
};

struct LiveLane {
  std::string label;
  std::int64_t tenant = 0;
  std::vector<LiveStretch> stretches;
  bool running = false;
};

struct LiveRunning {
  std::int64_t id = 0;
  std::string label;
  std::int64_t tenant = 0;
  std::string phase;
  std::int64_t prompt = 0;
  std::int64_t cached = 0;
  std::int64_t reused = 0;
  std::int64_t answer = 0;
  std::int64_t blocks = 0;
  std::int64_t pauses = 0;
  std::string kv;
};

struct LiveFinished {
  std::string label;
  std::int64_t id = 0;
  std::int64_t tenant = 0;
  double created = 0;  // on the wall clock
  std::string finish;
  std::int64_t prompt = 0;
  std::int64_t reused = 0;
  std::int64_t answer = 0;
  std::int64_t computed = 0;
  std::int64_t pauses = 0;
  double first_token_seconds = 0;
  double queue_seconds = 0;
  double seconds = 0;
  std::string reason;         // why no more was reused; empty: all was, or nobody said
  std::int64_t stopped = -1;  // the token where reuse stopped
  std::string kv;
};

struct LiveTenant {
  std::int64_t id = 0;
  std::int64_t blocks = 0;
  std::int64_t bytes = 0;
  std::int64_t queried = 0;
  std::int64_t hit = 0;
  std::int64_t evicted = 0;
};

// Counts so far. A tenant is told fewer than an operator.
struct LiveNumbers {
  double at = 0;
  std::int64_t queried = 0;
  std::int64_t hit = 0;
  std::int64_t evicted = 0;
  std::optional<std::int64_t> prompt_tokens;
  std::optional<std::int64_t> reused_tokens;
  std::optional<std::int64_t> answer_tokens;
  std::int64_t swapped_bytes = 0;
  std::int64_t recomputes = 0;
  std::int64_t swaps = 0;
  std::int64_t draft_tokens = 0;
  std::int64_t accepted_tokens = 0;
  double saved_seconds = 0;
  double first_token_sum = 0;
  std::int64_t first_tokens = 0;
  std::vector<LiveTenant> tenants;
};

// Of one second.
struct LiveRates {
  double at = 0;
  std::optional<double> prompt;  // tokens/s computed
  std::optional<double> answer;  // tokens/s
  std::optional<double> reused;  // share of the prompt tokens that were asked for
  std::optional<double> first_token;
  double used = 0;  // share of the blocks that somebody holds
};

struct LiveServer {
  std::string version;
  std::string model;
  std::string device;
  std::string kv;
  std::string eviction;
  double started = 0;  // on the wall clock
  bool open = true;    // no keys are used
  bool sees_all = true;
  std::int64_t block_tokens = 16;
  std::int64_t kv_bytes = 0;
  std::map<std::int64_t, std::string> tenants;
};

class LivePicture {
 public:
  static constexpr double kHistorySeconds = 600;

  // One event of the stream. Throws Error when it is not what such a stream tells.
  void take(std::string_view json, double now);

  bool begun() const { return begun_; }
  const LiveServer& server() const { return server_; }
  const std::vector<std::string>& policies() const { return policies_; }     // by group
  const std::map<std::uint64_t, LiveCell>& cells() const { return cells_; }  // by group, then place
  const std::vector<LiveRunning>& running() const { return running_; }
  const std::deque<LiveFinished>& finished() const { return finished_; }    // the newest first
  const std::map<std::int64_t, LiveLane>& lanes() const { return lanes_; }  // by request
  const std::deque<LiveRates>& rates() const { return rates_; }             // the oldest first
  const std::optional<LiveNumbers>& numbers() const { return numbers_; }
  const std::map<std::string, std::int64_t>& happened() const { return happened_; }  // events by kind
  std::string tenant_name(std::int64_t id) const;

 private:
  void take_hello(const JsonReader& hello);
  void take_cells(const JsonReader& rows, double now);
  void take_events(const JsonReader& list, double now);
  void take_running(const JsonReader& list);
  void take_finished(const JsonReader& list, double now);
  void take_numbers(const JsonReader& fields, double now);
  void keep_lanes(const std::vector<LiveRunning>& running, double now);
  void draw_lane(const LiveFinished& of, double now);
  void forget(double now);

  bool begun_ = false;
  LiveServer server_;
  std::vector<std::string> policies_;
  std::map<std::uint64_t, LiveCell> cells_;
  std::vector<LiveRunning> running_;
  std::deque<LiveFinished> finished_;
  std::map<std::int64_t, LiveLane> lanes_;
  std::deque<LiveRates> rates_;
  std::optional<LiveNumbers> numbers_;
  std::map<std::string, std::int64_t> happened_;
};

}  // namespace kvasir
