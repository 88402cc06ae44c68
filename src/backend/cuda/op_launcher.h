// Launches ops on the stream: which kernels each op is.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "backend/backend.h"
#include "backend/cuda/attention/cuda_attention.h"
#include "backend/cuda/batch_ops.h"
#include "backend/cuda/experts/cuda_experts.h"
#include "backend/cuda/gemm/cuda_matmul.h"
#include "backend/cuda/kv/kv_write.h"
#include "backend/cuda/runtime/device_sequences.h"
#include "backend/cuda/runtime/staging.h"

namespace kvasir::cuda {

struct OpLauncher {
  Backend& backend;  // runs what a fused op without a kernel is lowered to. REQUIRES: it is not recording then
  cudaStream_t stream;
  Staging& staging;
  SequenceTables& tables;
  CudaAttention& attention;
  CudaMatmul& matmul;
  CudaExperts& experts;

  void launch(const EmbedRowsOp& op) const;
  void launch(const CopyOp& op) const;
  void launch(const NormOp& op) const;
  void launch(const AddNormOp& op) const;
  void launch(const MatmulOp& op) const;
  void launch(const GatedMatmulOp& op) const;
  void launch(const NormMatmulOp& op) const;
  void launch(const FeedForwardOp& op) const;
  void launch(const RopeOp& op) const;
  void launch(const KvWriteOp& op) const;
  void launch(const RopeKvWriteOp& op) const;
  void launch(const AttentionOp& op) const;
  void launch(const SwigluOp& op) const;
  void launch(const ActivationOp& op) const;
  void launch(const ScaleOp& op) const;
  void launch(const QueryScaleOp& op) const;
  void launch(const SigmoidGateOp& op) const;
  void launch(const CausalConvOp& op) const;
  void launch(const DecayOp& op) const;
  void launch(const RecurrenceOp& op) const;
  void launch(const ExpertsOp& op) const;
  void launch(const ProjectedRows& op) const;
  void launch(const AddOp& op) const;
  void launch(const SampleOp& op) const;
  // These are never recorded. They upload what they need.
  void launch(const MergeAttentionOp& op) const;
  void launch(const WatchAttentionOp& op) const;
  void launch(const KvMoveOp& op) const;

  void launch(const BatchOp& op) const {
    std::visit([this](const auto& one) { launch(one); }, op);
  }

 private:
  void norm_into(const NormedRows& rows, GemmInput input) const;
  const SequenceView* with_states(std::span<const SequenceView> sequences) const;
  NewRows new_rows(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) const;
};

}  // namespace kvasir::cuda
