#include "backend/cuda/graph/graph_cache.h"

#include <algorithm>

#include "backend/cuda/runtime/cuda_check.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr size_t kMostEntries = 64;

}  // namespace

GraphCache::~GraphCache() {
  for (const Entry& entry : entries_) {
    if (entry.graph != nullptr) cudaGraphExecDestroy(entry.graph);
  }
}

GraphCache::Entry* GraphCache::find(const GraphKey& key) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->workspaces != key.workspaces || entry->shapes != key.shapes) continue;
    if (entry->version != key.ops.version() && entry->ops != key.ops.list()) continue;
    entry->version = key.ops.version();
    entries_.splice(entries_.begin(), entries_, entry);
    return &entries_.front();
  }
  return nullptr;
}

GraphCache::Seen GraphCache::seen(const GraphKey& key) {
  const Entry* entry = find(key);
  if (entry == nullptr) return Seen::kNever;
  return entry->hopeless ? Seen::kHopeless : Seen::kOnce;
}

void GraphCache::remember(const GraphKey& key) {
  entries_.push_front({key.ops.list(), key.ops.version(), key.shapes, key.workspaces});
  if (entries_.size() <= kMostEntries) return;
  if (entries_.back().graph != nullptr) {
    check(cudaStreamSynchronize(stream_), "waiting for the device");  // it may still run
    cudaGraphExecDestroy(entries_.back().graph);
  }
  entries_.pop_back();
}

bool GraphCache::capture(const GraphKey& key, const std::function<void()>& work) {
  Entry* entry = find(key);
  CHECK(entry != nullptr && entry->graph == nullptr);
  entry->hopeless = true;  // until the capture succeeded
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capturing a batch");
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  if (cudaStreamEndCapture(stream_, &graph) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  const cudaError_t made = cudaGraphInstantiate(&entry->graph, graph, 0);
  cudaGraphDestroy(graph);
  if (made != cudaSuccess) {
    cudaGetLastError();
    entry->graph = nullptr;
    return false;
  }
  entry->hopeless = false;
  return true;
}

bool GraphCache::launch(const GraphKey& key) {
  const Entry* entry = find(key);
  if (entry == nullptr || entry->graph == nullptr) return false;
  check(cudaGraphLaunch(entry->graph, stream_), "launching a batch");
  return true;
}

}  // namespace kvasir::cuda
