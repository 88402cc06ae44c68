// A stream with an owner, and the order between two of them.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/runtime/cuda_check.h"

namespace kvasir::cuda {

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void mark(cudaStream_t stream) const { check(cudaEventRecord(event_, stream), "recording an event"); }
  // Blocks the host until everything before the last mark is done; returns at once without a mark.
  void wait() const { check(cudaEventSynchronize(event_), "waiting for the device"); }

  // Makes later work on `later` wait for the work that is on `first` now.
  void order(cudaStream_t first, cudaStream_t later) const {
    mark(first);
    check(cudaStreamWaitEvent(later, event_), "waiting for another stream");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace kvasir::cuda
