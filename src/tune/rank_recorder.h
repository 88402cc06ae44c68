// Another backend, but that it sums up what attention sees and gives: queries, keys and outputs of every head. The
// model that is watched is loaded with it.
#pragma once

#include <memory>
#include <vector>

#include "backend/forwarding_backend.h"
#include "model/config.h"
#include "tune/rank_basis.h"

namespace kvasir {

class RankRecorder final : public ForwardingBackend {
 public:
  RankRecorder(std::unique_ptr<Backend> plain, const ModelSpec& config);

  // Of everything until now: [layers][kv_heads]. REQUIRES: something was read.
  std::vector<std::vector<HeadMoments>> moments() const;

  // A layer's keys come before its queries, and layers one after the other, each in one group of the cache.
  void run(const Op& op) override;

 private:
  void add_keys(const KvWriteOp& op);
  void add_queries(const AttentionOp& op);

  std::vector<std::vector<HeadMoments>> sums_;  // [layers][kv_heads]; of symmetric squares the lower half
  size_t layer_ = 0;                            // whose turn it is
  std::int64_t rows_ = 0;                       // of the first layer
  int heads_;
  std::vector<float> host_keys_;  // of the call at hand
  std::vector<float> host_queries_;
  std::vector<float> host_outputs_;
};

}  // namespace kvasir
