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

  void mark(cudaStream_t stream) const { check(cudaEventRecord(event_, stream), "marking a place in a stream"); }
  // On the host, until all before the last mark is done; not at all if there is none.
  void wait() const { check(cudaEventSynchronize(event_), "waiting for the device"); }

  // What comes on `later` waits for what is on `first` now.
  void order(cudaStream_t first, cudaStream_t later) const {
    mark(first);
    check(cudaStreamWaitEvent(later, event_), "waiting for another stream");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace kvasir::cuda
