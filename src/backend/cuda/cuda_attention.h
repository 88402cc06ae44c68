// Attention: a batch cut into tiles and splits, and the kernels that go over them.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention_args.h"
#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/device_memory.h"
#include "backend/cuda/device_sequences.h"
#include "backend/cuda/prefix_plan.h"
#include "backend/cuda/wide_room.h"

namespace kvasir::cuda {

// Heads longer than this are an Error on this device.
inline constexpr int kMostHeadDim = 256;
inline constexpr int kMostPlainHeadDim = 512;  // where K or V is float32

// What the kernels of an attention call are given beyond the call itself: what is there and how much of it. Two calls
// of one shape launch the same kernels with the same parameters.
struct AttentionShape {
  std::array<const void*, 18> at{};
  int tiles = 0;
  int items = 0;
  int spans = 0;
  bool in_many_spans = false;
  int pieces = 0;  // of prefixes
  int wide = 0;    // blocks of prefixes that are widened

  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

class CudaAttention {
 public:
  // On the device in use.
  CudaAttention(cudaStream_t stream, Staging& staging, SequenceTables& tables);

  // `also`: for out as well. REQUIRES: none of it, or fills_rows().
  void attend(const AttentionBatch& batch, Matrix out, RowsRoom also = {});
  // Whether attend() writes all of out, and can leave it for a product too.
  static bool fills_rows(const AttentionBatch& batch, Matrix out);
  void watch(const AttentionBatch& batch, const AttentionWatch& watch);
  // What attend() would do, with the memory that there is now; what it needs is in staging memory then. None where it
  // would do more than batches of single tokens need.
  std::optional<AttentionShape> shape(const AttentionBatch& batch);
  // Plans of an earlier batch lead nowhere.
  void forget() { plans_.clear(); }

 private:
  // How many rows of one sequence are attended to.
  enum class Prompts : std::uint8_t {
    kInTiles,   // like few
    kInGroups,  // over blocks as they lie
    kWidened,   // in groups too, over blocks that are widened before
  };

  // How a batch is cut, for all layers that are cached alike.
  struct Plan {
    const SequenceView* sequences = nullptr;  // whose it is: the host's
    size_t count = 0;
    int heads_per_kv = 0;
    Retention retention;
    Prompts prompts = Prompts::kInTiles;
    bool shares = false;  // sequences that begin alike are in groups
    std::vector<AttentionTile> tiles;
    std::vector<SpanItems> spans;
    bool in_many_spans = false;  // some row's splits are, shared ones included
    std::vector<AttentionGroup> groups;
    std::vector<WideBlock> wide;  // what the groups' sequences see, whose blocks are numbers of these then
    PrefixPlan prefixes;
    std::vector<WideBlock> wide_prefixes;  // likewise of prefixes
    int spare = 0;  // items behind those of the tiles, which nobody needs: so their number changes rarely
    const AttentionTile* device_tiles = nullptr;
    const AttentionItem* device_items = nullptr;
    const SpanItems* device_spans = nullptr;
    const AttentionGroup* device_groups = nullptr;
    const WideBlock* device_wide = nullptr;
    const WideBlock* device_wide_prefixes = nullptr;
    PrefixArgs device_prefixes;
  };

  const Plan& plan(const AttentionBatch& batch);
  Plan make_plan(const AttentionBatch& batch);
  Prompts prompts_of(const KvView& view) const;
  // On the device, of the sequence's prompt.
  const BlockId* blocks_of(Plan& plan, const SequenceView& sequence, const BlockId* table);
  bool shares_prefixes(const KvView& view, int heads_per_kv) const;
  void add_prefixes(Plan& plan, const AttentionBatch& batch);
  void widen_prefixes(Plan& plan);
  void send(Plan& plan, const AttentionBatch& batch);
  void attend_plainly(const AttentionBatch& batch, Matrix out);
  void attend_to_tiles(const AttentionBatch& batch, Matrix out, RowsRoom also);
  bool reads_boxes(const KvView& view) const { return has_copy_engine_ && takes_boxes(view); }
  bool reads_fp8(const KvView& view) const { return has_copy_engine_ && takes_fp8(view); }
  bool reads_codes(const KvView& view) const { return has_copy_engine_ && takes_codes(view); }
  // As kernels want them that do not take them as they come.
  void prepare(const AttentionBatch& batch, AttentionArgs& args);
  void attend_to_groups(const Plan& plan, AttentionArgs args);
  int* zero();
  void attend_to_prefixes(const Plan& plan, AttentionArgs& args);
  bool folds_spans(const AttentionArgs& args) const;
  void attend_to_items(const AttentionArgs& args);
  void merge(const Plan& plan, const AttentionArgs& args);
  // In device memory, prepared: halves or floats of all rows.
  const float* float_queries(const AttentionBatch& batch);

  cudaStream_t stream_;
  Staging& staging_;
  SequenceTables& tables_;
  bool has_copy_engine_ = false;
  int processors_ = 0;
  std::vector<Plan> plans_;
  DeviceMemory halves_, floats_, scales_, part_out_, part_states_, shares_;
  DeviceMemory begun_out_, begun_states_;
  WideRoom wide_, wide_prefixes_;
  DeviceMemory taken_;  // 0 between two launches
};

}  // namespace kvasir::cuda
