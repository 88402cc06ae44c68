// What somebody who watches sees of an engine: plain values, copied between two steps, so that all else can be done
// elsewhere. Blocks that did not change cost nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace kvasir {

enum class BlockSight : std::uint8_t {
  kAbsent,  // its memory serves another group now
  kFree,
  kInUse,   // one holds it
  kShared,  // several do
  kCached,  // nobody does, and it can be found
  kPinned,  // nobody but breakpoints and public texts
};
std::string_view name_of(BlockSight sight);  // "in_use"

struct WatchedBlock {
  BlockInfo info;
  BlockSight sight = BlockSight::kAbsent;
};

struct WatchedGroup {
  std::string policy;  // its text; empty: dropped
  bool state = false;  // blocks hold states, not rows
  std::int64_t window = 0;
  std::int64_t block_bytes = 0;

  friend bool operator==(const WatchedGroup&, const WatchedGroup&) = default;
};

// A client's request that runs or waits.
struct WatchedRequest {
  enum class Phase : std::uint8_t {
    kQueued,
    kPrefill,
    kDecode,
    kStalled,    // it waits for blocks, and keeps those it has
    kPreempted,  // it let go of its blocks …
    kSwapped,    // … which are in host memory
  };
  RequestId id = 0;
  std::string label;
  std::uint32_t tenant = 0;
  Phase phase = Phase::kQueued;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // whose K and V it holds now
  std::int64_t reused_tokens = 0;  // that it found when it began
  std::int64_t answer_tokens = 0;
  std::int64_t blocks = 0;         // that it holds; of a swapped one: that lie in host memory
  int preemptions = 0;
  std::string kv;
};
std::string_view name_of(WatchedRequest::Phase phase);  // "prefill"

struct EngineLook {
  double now = 0;  // on the clock of the blocks' times
  std::vector<WatchedGroup> groups;
  std::vector<WatchedBlock> blocks;  // that changed since the last look; at first, all
  std::vector<CacheEvent> events;
  std::int64_t lost_events = 0;
  std::vector<WatchedRequest> requests;  // the first kMostRequests
  static constexpr size_t kMostRequests = 512;
};

// On the engine's thread. Requires watch_cache() before the first.
EngineLook look_at(Engine& engine);

// Which requests hold a block, and the blocks that a request holds.
std::vector<RequestId> holders_of(Engine& engine, const BlockInfo& block);
struct BlockPlace {
  size_t group = 0;
  BlockId block = kNoBlock;
};
std::vector<BlockPlace> blocks_of(Engine& engine, RequestId id);

}  // namespace kvasir
