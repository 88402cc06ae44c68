// Times kernels as a model runs them: as a CUDA graph that is replayed.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>

#include "backend/cuda/runtime/cuda_check.h"

namespace kvasir::cuda {

// Milliseconds of a graph of what `work` enqueues: the faster of two replays after a warm-up.
template <class Work>
float replay_time(cudaStream_t stream, const Work& work) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing kernels");
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "capturing kernels");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(made, "timing kernels");
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
  float best = std::numeric_limits<float>::infinity();
  cudaError_t result = cudaEventCreate(&start);
  if (result == cudaSuccess) result = cudaEventCreate(&stop);
  for (int i = 0; i < 3 && result == cudaSuccess; ++i) {
    cudaEventRecord(start, stream);
    cudaGraphLaunch(executable, stream);
    cudaEventRecord(stop, stream);
    result = cudaEventSynchronize(stop);
    float time = 0;
    if (result == cudaSuccess) result = cudaEventElapsedTime(&time, start, stop);
    if (i > 0) best = std::min(best, time);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  cudaGraphExecDestroy(executable);
  check(result, "timing kernels");
  return best;
}

}  // namespace kvasir::cuda
