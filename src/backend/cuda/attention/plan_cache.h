// The partition of a batch, and its upload: made once for all layers that are cached alike, and reused by the next
// decode step if that is partitioned alike.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention/attention_args.h"
#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/partition.h"
#include "backend/cuda/attention/prefill/dequant_workspace.h"
#include "backend/cuda/attention/prefix_plan.h"
#include "backend/cuda/runtime/device_sequences.h"

namespace kvasir::cuda {

// What decides which kernels a device has.
struct AttentionDevice {
  int sm_count = 0;
  bool has_tma = false;

  bool uses_tma(const KvView& view) const { return has_tma && supports_tma(view); }
  bool uses_fp8(const KvView& view) const { return has_tma && supports_fp8(view); }
  bool uses_int(const KvView& view) const { return has_tma && supports_int(view); }
};

// How sequences of many query rows are run.
enum class PrefillPath : std::uint8_t {
  kDecode,        // in tiles, by the decode kernels
  kWgmma,         // by wgmma.cu
  kDequantWgmma,  // by wgmma.cu, after dequant_kv.cu
};

// Layers with equal keys share a plan.
struct PlanKey {
  const SequenceView* sequences = nullptr;  // host memory
  size_t count = 0;
  int heads_per_kv = 0;
  int kv_heads = 0;
  Retention retention;
  PrefillPath prefill_path = PrefillPath::kDecode;
  bool shares = false;  // shared prefixes are looked for
  bool trees = false;   // a row may have a path of its own: generic.cu runs

  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

// Whether a row of the batch has keys elsewhere than at their positions. A tree of one row is a chain.
bool has_trees(std::span<const SequenceView> sequences);

// The partition of a batch.
struct AttentionPlan : PlanKey {
  AttentionPlan() = default;
  explicit AttentionPlan(const PlanKey& made_for) : PlanKey(made_for) {}

  std::vector<BlockId> first_blocks;  // of the sequences
  std::vector<AttentionTile> tiles;
  std::vector<ChunkGroup> chunk_groups;
  bool has_many_groups = false;  // some row has more than one chunk group, shared ones included
  WholeRows whole_rows;
  int ctas_per_row = 0;
  bool decode_only = true;  // every sequence has one row
  std::vector<PrefillTile> prefill_tiles;
  std::vector<DequantBlock> dequant_blocks;  // what prefill tiles read; their block tables index this list
  PrefixPlan prefixes;
  std::vector<DequantBlock> dequant_prefix_blocks;  // the same for shared prefixes
  int padding_items = 0;                            // items of no tile, which make the number of items change rarely
  const TreePath* device_paths = nullptr;           // by row of the batch, with `trees`
  const AttentionTile* device_tiles = nullptr;
  const WorkItem* device_items = nullptr;
  const ChunkGroup* device_chunk_groups = nullptr;
  const WorkItem* device_rows = nullptr;
  const PrefillTile* device_prefill_tiles = nullptr;
  const DequantBlock* device_dequant_blocks = nullptr;
  const DequantBlock* device_dequant_prefix_blocks = nullptr;
  PrefixArgs device_prefixes;

  bool is_for(const PlanKey& asked) const { return static_cast<const PlanKey&>(*this) == asked; }
  // Whether single tokens of `now` have the same tiles and chunk groups. Shared prefixes are not looked for again
  // while sequences begin with the same blocks: that changes no bit.
  bool partitions_alike(std::span<const SequenceView> now) const;
  // Whether whole-row kernels may run.
  bool needs_rows() const { return whole_rows.balanced || ctas_per_row > 0; }
};

class PlanCache {
 public:
  PlanCache(const AttentionDevice& device, Staging& staging, SequenceTables& tables)
      : device_(device), staging_(staging), tables_(tables) {}

  // Makes and uploads the batch's plan if there is none yet. The reference is valid until the next plan is made.
  const AttentionPlan& plan(const AttentionBatch& batch);
  // Ends a batch: its uploads are gone. Its plans are kept to be compared with the next ones.
  void forget();

 private:
  PlanKey key_of(const AttentionBatch& batch) const;
  AttentionPlan make(const AttentionBatch& batch);
  PrefillPath prefill_path_of(const KvView& view) const;
  // The block table for the sequence's prefill tiles, on the device.
  const BlockId* blocks_of(AttentionPlan& plan, const SequenceView& sequence, const BlockId* table);
  bool shares_prefixes(const KvView& view, int heads_per_kv) const;
  void add_prefixes(AttentionPlan& plan, const AttentionBatch& batch);
  void add_paths(AttentionPlan& plan, const AttentionBatch& batch);
  void dequantize_prefixes(AttentionPlan& plan);
  void send(AttentionPlan& plan, const AttentionBatch& batch);

  AttentionDevice device_;
  Staging& staging_;
  SequenceTables& tables_;
  std::vector<AttentionPlan> plans_;
  std::vector<AttentionPlan> last_;  // of the batch before
};

}  // namespace kvasir::cuda
