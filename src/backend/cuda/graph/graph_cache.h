// CUDA graphs of recurring batches: a decode step is hundreds of kernels, and one graph launch.
//
// A graph is captured from ops that ran. It is launched again for a batch whose ops have equal parameters, pointers
// included. Data that changes with every step (tokens, rope rows, block tables, work items) lies in staging memory at
// the same addresses.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include "backend/cuda/attention/cuda_attention.h"
#include "backend/cuda/batch_ops.h"

namespace kvasir::cuda {

// Where GEMM inputs (CudaMatmul::rows_at()) and pairs of experts (CudaExperts::workspace()) lie.
using Workspaces = std::array<const void*, 3>;

struct GraphKey {
  RecordedOps ops;
  std::vector<AttentionShape> shapes;  // of its attention ops; one for neighbouring layers that are alike
  Workspaces workspaces{};
};

class GraphCache {
 public:
  explicit GraphCache(cudaStream_t stream) : stream_(stream) {}
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  bool launch(const GraphKey& key);  // false: it was never captured, and nothing was launched

  enum class Seen : std::uint8_t { kNever, kOnce, kHopeless };
  Seen seen(const GraphKey& key);      // REQUIRES: launch() was false
  void remember(const GraphKey& key);  // notes that it ran
  // Captures what `work` enqueues, without running it. False: it cannot be captured. REQUIRES: kOnce
  bool capture(const GraphKey& key, const std::function<void()>& work);

 private:
  struct Entry {
    std::vector<BatchOp> ops;
    std::uint64_t version = 0;  // of the last recorded ops that were equal
    std::vector<AttentionShape> shapes;
    Workspaces workspaces{};
    cudaGraphExec_t graph = nullptr;
    bool hopeless = false;  // capturing failed
  };

  Entry* find(const GraphKey& key);

  cudaStream_t stream_;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace kvasir::cuda
