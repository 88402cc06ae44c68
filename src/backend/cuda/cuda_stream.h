// A stream with an owner, and the order between two of them.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/cuda_check.h"

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

  // What comes on `later` waits for what is on `first` now.
  void order(cudaStream_t first, cudaStream_t later) const {
    check(cudaEventRecord(event_, first), "marking a place in a stream");
    check(cudaStreamWaitEvent(later, event_), "waiting for another stream");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace kvasir::cuda
