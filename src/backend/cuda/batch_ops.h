// The recorded ops of a batch: they run later, and are compared with those of the batch before. Equal lists launch
// the same kernels with the same parameters, except for what attention's plan decides (AttentionShape).
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/ops/cast_rows.h"
#include "backend/cuda/ops/elementwise.h"
#include "backend/cuda/sample/sample_rows.h"

namespace kvasir::cuda {

// An EmbedOp whose tokens are on the device.
struct EmbedRowsOp {
  const Weight* table = nullptr;
  RowTokens tokens;
  Matrix out;
  friend bool operator==(const EmbedRowsOp&, const EmbedRowsOp&) = default;
};
struct SampleOp {
  SampleArgs rows;
  friend bool operator==(const SampleOp&, const SampleOp&) = default;
};

using BatchOp =
    std::variant<EmbedRowsOp, CopyOp, NormOp, AddNormOp, MatmulOp, GatedMatmulOp, RopeOp, ProjectedRows, KvWriteOp,
                 RopeKvWriteOp, AttentionOp, SwigluOp, ActivationOp, ScaleOp, QueryScaleOp, SigmoidGateOp,
                 CausalConvOp, DecayOp, RecurrenceOp, ExpertsOp, NormMatmulOp, FeedForwardOp, AddOp, SampleOp>;

// Whether attention to both is partitioned and launched alike.
bool same_but_layer(const AttentionBatch& a, const AttentionBatch& b);

// A decode step mostly repeats the ops of the step before. So add() only compares an op with the old one at the same
// index, and a list is identified by its version.
class RecordedOps {
 public:
  RecordedOps() = default;
  RecordedOps(const RecordedOps&) = delete;  // attention() points into it
  RecordedOps& operator=(const RecordedOps&) = delete;

  void begin() { count_ = 0; }
  // Begins with the first `count` ops of the last list. REQUIRES: nothing was added since its end().
  void begin_again(size_t count);
  void add(const BatchOp& op);
  void end();

  size_t count() const { return count_; }  // ops that were added

  // After end(): the ops of the batch. Consecutive batches with equal ops have equal versions.
  const std::vector<BatchOp>& list() const { return ops_; }
  std::uint64_t version() const { return version_; }
  // The attention ops, in order; of neighbours that are launched alike the first one.
  const std::vector<const AttentionBatch*>& attention() const { return attention_; }

 private:
  std::vector<BatchOp> ops_;  // from count_ on, those of the batch before
  size_t count_ = 0;
  bool changed_ = false;  // since the last end(), unfinished batches included
  std::uint64_t version_ = 0;
  std::vector<const AttentionBatch*> attention_;  // points into ops_
};

}  // namespace kvasir::cuda
