// Shorter rows: a model's KvBasis in the backend's memory, and what it makes of the rows of a layer.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "layout/kv_view.h"
#include "model/kv_basis.h"

namespace kvasir {

// What meets in attention: heads side by side.
struct AttentionRows {
  Matrix q, k, v;
  Matrix sink_q;  // the queries as they look at sinks that their window has left behind; none where nobody does
  const RopeTable* unturned = nullptr;  // by which q and k are still to be turned, all of them
};

// Everything is of the rows of some sequences: others share the batch, and their rows stay as they are.
class KvProjections {
 public:
  // The backend outlives it. `heads` are those of queries.
  KvProjections(Backend& backend, const KvBasis& basis, int heads, int max_rows);

  // What a group caches of whole rows of its heads, and the queries that meet it. What is whole in the shape stays
  // where it is; all else is valid until the next call.
  AttentionRows shortened(AttentionRows rows, int layer, const KvView& view, std::span<const SequenceView> sequences);

  // Room for what attention over short values gives, and whole rows of it. REQUIRES: values are not whole.
  Matrix room_for_outputs(int rows, const KvView& view) const;
  void widen(Matrix outputs, int layer, const KvView& view, std::span<const SequenceView> sequences, Matrix to);

 private:
  struct Layer {
    Buffer keys, queries, values, outputs, channels;  // [kv_heads][dim][stride_]
  };
  // [max_rows][heads * dim]
  struct Room {
    Buffer q, k, v, sink_q, outputs;
  };

  Buffer upload(const std::vector<float>& squares);
  PerHeadLinear cut(const Buffer& squares, const KvView& view, int inputs, int outputs) const;
  int queries_of(const KvView& view) const { return heads_ / kv_heads_ * view.layout.shape.heads; }

  Backend& backend_;
  int kv_heads_;
  int heads_;
  int dim_;
  int stride_;  // dim_ rounded up to kHeadMatrixLanes
  std::vector<Layer> layers_;
  Room room_;
};

}  // namespace kvasir
