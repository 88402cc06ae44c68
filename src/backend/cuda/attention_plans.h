// How batches are cut for attention on a device, and what its kernels are sent of that: once for all layers that are
// cached alike.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention_args.h"
#include "backend/cuda/attention_cut.h"
#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/device_sequences.h"
#include "backend/cuda/prefix_plan.h"
#include "backend/cuda/wide_room.h"

namespace kvasir::cuda {

// What of a device decides which kernels there are.
struct AttentionDevice {
  int processors = 0;
  bool has_copy_engine = false;

  bool reads_boxes(const KvView& view) const { return has_copy_engine && takes_boxes(view); }
  bool reads_fp8(const KvView& view) const { return has_copy_engine && takes_fp8(view); }
  bool reads_codes(const KvView& view) const { return has_copy_engine && takes_codes(view); }
};

// How many rows of one sequence are attended to.
enum class Prompts : std::uint8_t {
  kInTiles,   // like few
  kInGroups,  // over blocks as they lie
  kWidened,   // in groups too, over blocks that are widened before
};

// What a plan is made for: all layers of which this is the same have one.
struct PlannedFor {
  const SequenceView* sequences = nullptr;  // the host's
  size_t count = 0;
  int heads_per_kv = 0;
  int kv_heads = 0;
  Retention retention;
  Prompts prompts = Prompts::kInTiles;
  bool shares = false;  // sequences that begin alike are in groups

  friend bool operator==(const PlannedFor&, const PlannedFor&) = default;
};

// How a batch is cut.
struct AttentionPlan : PlannedFor {
  AttentionPlan() = default;
  explicit AttentionPlan(const PlannedFor& made_for) : PlannedFor(made_for) {}

  std::vector<BlockId> first_blocks;  // of the sequences
  std::vector<AttentionTile> tiles;
  std::vector<SpanItems> spans;
  bool in_many_spans = false;  // some row's splits are, shared ones included
  WholeRows whole_rows;
  int parts_of_rows = 0;
  bool of_single_tokens = true;  // every sequence has one row
  std::vector<AttentionGroup> groups;
  std::vector<WideBlock> wide;  // what the groups' sequences see, whose blocks are numbers of these then
  PrefixPlan prefixes;
  std::vector<WideBlock> wide_prefixes;  // likewise of prefixes
  int spare = 0;  // items behind those of the tiles, which nobody needs: so their number changes rarely
  const AttentionTile* device_tiles = nullptr;
  const AttentionItem* device_items = nullptr;
  const SpanItems* device_spans = nullptr;
  const AttentionItem* device_rows = nullptr;
  const AttentionGroup* device_groups = nullptr;
  const WideBlock* device_wide = nullptr;
  const WideBlock* device_wide_prefixes = nullptr;
  PrefixArgs device_prefixes;

  bool is_for(const PlannedFor& asked) const { return static_cast<const PlannedFor&>(*this) == asked; }
  // Whether single tokens of these would be cut as its own were, into the same tiles and spans. Which of them share a
  // prefix is not looked for again as long as they begin with the blocks with which they did: that changes no bits.
  bool cuts_alike(std::span<const SequenceView> now) const;
  // Kernels that finish rows take those instead of items.
  bool needs_rows() const { return whole_rows.balanced || parts_of_rows > 0; }
};

class AttentionPlans {
 public:
  AttentionPlans(const AttentionDevice& device, Staging& staging, SequenceTables& tables)
      : device_(device), staging_(staging), tables_(tables) {}

  // Made where there is none of the batch yet, and sent then. It lasts until the next one is made.
  const AttentionPlan& plan(const AttentionBatch& batch);
  // Plans of an earlier batch lead nowhere. Those of the last one are kept for how they are cut.
  void forget();

 private:
  PlannedFor planned_for(const AttentionBatch& batch) const;
  AttentionPlan make(const AttentionBatch& batch);
  Prompts prompts_of(const KvView& view) const;
  // On the device, of the sequence's prompt.
  const BlockId* blocks_of(AttentionPlan& plan, const SequenceView& sequence, const BlockId* table);
  bool shares_prefixes(const KvView& view, int heads_per_kv) const;
  void add_prefixes(AttentionPlan& plan, const AttentionBatch& batch);
  void widen_prefixes(AttentionPlan& plan);
  void send(AttentionPlan& plan, const AttentionBatch& batch);

  AttentionDevice device_;
  Staging& staging_;
  SequenceTables& tables_;
  std::vector<AttentionPlan> plans_;
  std::vector<AttentionPlan> last_;  // of the batch before
};

}  // namespace kvasir::cuda
