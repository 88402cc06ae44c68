// The ops of a batch as values: to be run later, and to be compared with those of a batch before. Two lists that are
// equal launch the same kernels with the same parameters, but for what attention's plan decides (AttentionShape).
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/convert_rows.h"
#include "backend/cuda/draw_rows.h"

namespace kvasir::cuda {

struct EmbedOp {
  const Weight* table = nullptr;
  RowTokens tokens;
  Matrix out;
};
struct CopyOp {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // both on the device
  size_t bytes = 0;
};
struct NormOp {
  Matrix x;
  NormRule rule;
  Matrix out;
};
struct AddNormOp {
  Matrix x;
  Matrix y;
  NormRule rule;
  Matrix out;
};
struct MatmulOp {
  const Weight* weight = nullptr;
  Matrix x;
  const float* bias = nullptr;
  Matrix out;
};
struct RopeOp {
  Matrix x;
  int heads = 0;
  RopeTable table;
};
struct WriteOp {
  Matrix k;
  Matrix v;
  KvView view;
  std::span<const SequenceView> sequences;
};
struct TurnWriteOp {
  UnturnedRows rows;
  KvView view;
  std::span<const SequenceView> sequences;
};
struct AttentionOp {
  AttentionBatch batch;
  Matrix out;
};
struct SwigluOp {
  Matrix gate;
  Matrix up;
  Matrix out;
};
struct GatedOp {
  const Weight* weight = nullptr;
  Matrix gate;
  Matrix up;
  const float* bias = nullptr;
  Matrix out;
};
struct NormMatmulOp {
  NormedRows rows;
  const Weight* weight = nullptr;
  const float* bias = nullptr;
  Matrix out;
};
struct FeedForwardOp {
  NormedRows rows;
  GatedLayer layer;
  Matrix gate_up;
  Matrix out;
};
struct AddOp {
  Matrix x;
  Matrix y;
};
struct DrawOp {
  DrawnRows rows;
};

using BatchOp = std::variant<EmbedOp, CopyOp, NormOp, AddNormOp, MatmulOp, GatedOp, RopeOp, WriteOp, TurnWriteOp,
                             AttentionOp, SwigluOp, NormMatmulOp, FeedForwardOp, AddOp, DrawOp>;

bool same(const BatchOp& a, const BatchOp& b);
bool same(const std::vector<BatchOp>& a, const std::vector<BatchOp>& b);
// Whether attention to both is cut and launched alike.
bool same_but_layer(const AttentionBatch& a, const AttentionBatch& b);

// The ops of a batch, one after the other. A decode step's are those of the step before it, mostly: so each is only
// compared with the one at its place there, and a list is known by its version.
class RecordedOps {
 public:
  RecordedOps() = default;
  RecordedOps(const RecordedOps&) = delete;  // attention() points into it
  RecordedOps& operator=(const RecordedOps&) = delete;

  void begin() { count_ = 0; }
  // Instead: so many of the last list's are this one's, too. REQUIRES: nothing was added since its end().
  void begin_again(size_t count);
  void add(const BatchOp& op);
  void end();

  size_t count() const { return count_; }  // that were added

  // Behind end(): of the batch, and what two batches behind each other have in common if their ops are the same.
  const std::vector<BatchOp>& list() const { return ops_; }
  std::uint64_t version() const { return version_; }
  // Those of attention, in order, of neighbours that are cut and launched alike the first one.
  const std::vector<const AttentionBatch*>& attention() const { return attention_; }

 private:
  std::vector<BatchOp> ops_;  // behind count_, those of the batch before
  size_t count_ = 0;
  bool changed_ = false;  // since the last end(): a batch that was begun and never ended counts
  std::uint64_t version_ = 0;
  std::vector<const AttentionBatch*> attention_;  // of ops_
};

}  // namespace kvasir::cuda
