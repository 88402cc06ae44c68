// Batches that come again as CUDA graphs: a decode step is hundreds of kernels, and one launch.
//
// What a graph holds is captured from ops that ran, with their parameters. It is launched again for a batch whose ops
// have the same parameters, to the last pointer; what differs from step to step (tokens, angles, block tables, the
// items of attention) lies in staging memory at the same places.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <list>
#include <utility>
#include <vector>

#include "backend/cuda/batch_ops.h"
#include "backend/cuda/cuda_attention.h"

namespace kvasir::cuda {

struct BatchKey {
  RecordedOps ops;
  std::vector<AttentionShape> shapes;        // of the attention ops among them, of layers that are alike one
  std::pair<const void*, const void*> rows;  // where products have theirs (CudaMatmul::rows_at())
};

class BatchGraphs {
 public:
  explicit BatchGraphs(cudaStream_t stream) : stream_(stream) {}
  ~BatchGraphs();
  BatchGraphs(const BatchGraphs&) = delete;
  BatchGraphs& operator=(const BatchGraphs&) = delete;

  bool launch(const BatchKey& key);  // false, and nothing done: it was not captured

  enum class Seen : std::uint8_t { kNever, kOnce, kHopeless };
  Seen seen(const BatchKey& key);      // REQUIRES: launch() was false
  void remember(const BatchKey& key);  // that it ran
  // What `work` enqueues, instead of running it. False: it cannot be captured. REQUIRES: kOnce
  bool capture(const BatchKey& key, const std::function<void()>& work);

 private:
  struct Entry {
    std::vector<BatchOp> ops;
    std::uint64_t version = 0;  // of the recorded ops that were the same last
    std::vector<AttentionShape> shapes;
    std::pair<const void*, const void*> rows;
    cudaGraphExec_t graph = nullptr;
    bool hopeless = false;  // it could not be captured
  };

  Entry* find(const BatchKey& key);

  cudaStream_t stream_;
  std::list<Entry> entries_;  // the last used first
};

}  // namespace kvasir::cuda
