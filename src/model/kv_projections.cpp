#include "model/kv_projections.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace kvasir {
namespace {

std::vector<float> transposed(const std::vector<float>& squares, int heads, int dim) {
  std::vector<float> out(squares.size());
  const auto at = [dim](int head, int row, int column) {
    return (static_cast<size_t>(head) * static_cast<size_t>(dim) + static_cast<size_t>(row)) *
               static_cast<size_t>(dim) +
           static_cast<size_t>(column);
  };
  for (int h = 0; h < heads; ++h) {
    for (int i = 0; i < dim; ++i) {
      for (int j = 0; j < dim; ++j) out[at(h, j, i)] = squares[at(h, i, j)];
    }
  }
  return out;
}

// A one in each column: the row that is the channel of its rank.
std::vector<float> in_order(const std::vector<std::int32_t>& channels, int dim) {
  std::vector<float> out(channels.size() * static_cast<size_t>(dim), 0.0F);
  for (size_t i = 0; i < channels.size(); ++i) {
    const size_t column = i % static_cast<size_t>(dim);
    const size_t row = i - column + static_cast<size_t>(channels[i]);
    out[row * static_cast<size_t>(dim) + column] = 1.0F;
  }
  return out;
}

}  // namespace

KvProjections::KvProjections(Backend& backend, const KvBasis& basis, int heads, int max_rows)
    : backend_(backend),
      kv_heads_(basis.kv_heads),
      heads_(heads),
      dim_(basis.dim),
      stride_((basis.dim + kHeadMatrixLanes - 1) / kHeadMatrixLanes * kHeadMatrixLanes) {
  const auto rows_of = [&](int row_heads) {
    return backend.allocate(sizeof(float) * static_cast<size_t>(max_rows) * static_cast<size_t>(row_heads * dim_));
  };
  room_ = {rows_of(heads_), rows_of(kv_heads_), rows_of(kv_heads_), rows_of(heads_), rows_of(heads_)};
  for (const KvBasis::Layer& layer : basis.layers) {
    layers_.push_back({upload(layer.keys), upload(layer.queries), upload(layer.values),
                       upload(transposed(layer.values, kv_heads_, dim_)), upload(in_order(layer.channels, dim_))});
  }
}

// Squares of dim x dim, their rows as far apart as kernels want them.
Buffer KvProjections::upload(const std::vector<float>& squares) {
  const auto rows = static_cast<size_t>(kv_heads_) * static_cast<size_t>(dim_);
  std::vector<float> padded(rows * static_cast<size_t>(stride_), 0.0F);
  for (size_t row = 0; row < rows; ++row) {
    std::copy_n(squares.begin() + static_cast<std::ptrdiff_t>(row) * dim_, dim_,
                padded.begin() + static_cast<std::ptrdiff_t>(row) * stride_);
  }
  Buffer buffer = backend_.allocate(padded.size() * sizeof(float));
  backend_.upload(buffer.as<std::byte>(), std::as_bytes(std::span(padded)));
  return buffer;
}

// Of the group's heads.
PerHeadLinear KvProjections::cut(const Buffer& squares, const KvView& view, int inputs, int outputs) const {
  CHECK(inputs > 0 && inputs <= dim_ && outputs > 0 && outputs <= dim_);
  const std::int64_t head_stride = static_cast<std::int64_t>(dim_) * stride_;
  return {squares.as<float>() + view.first_head * head_stride,
          view.layout.shape.heads,
          inputs,
          outputs,
          stride_,
          head_stride};
}

AttentionRows KvProjections::shortened(AttentionRows rows, int layer, const KvView& view,
                                       std::span<const SequenceView> sequences) {
  const Layer& own = layers_[static_cast<size_t>(layer)];
  const KvShape& shape = view.layout.shape;
  const int queries_heads = queries_of(view);
  const auto project = [&](Matrix& x, int heads, const PerHeadLinear& by, const Buffer& room) {
    const Matrix out{room.as<float>(), x.rows, heads * by.outputs, heads * by.outputs};
    backend_.run(ProjectOp{x, heads, by, sequences, out});
    x = out;
  };
  if (shape.k_space != KvSpace::kWhole) {
    const bool channels = shape.k_space == KvSpace::kChannels;
    const PerHeadLinear keys = cut(channels ? own.channels : own.keys, view, dim_, shape.k_dim);
    const PerHeadLinear queries = cut(channels ? own.channels : own.queries, view, dim_, shape.k_dim);
    project(rows.k, shape.heads, keys, room_.k);
    project(rows.q, queries_heads, queries, room_.q);
    if (rows.sink_q.data != nullptr) project(rows.sink_q, queries_heads, queries, room_.sink_q);
  }
  if (shape.v_space != KvSpace::kWhole) {
    project(rows.v, shape.heads, cut(own.values, view, dim_, shape.v_dim), room_.v);
  }
  return rows;
}

Matrix KvProjections::room_for_outputs(int rows, const KvView& view) const {
  const int width = queries_of(view) * view.layout.shape.v_dim;
  return {room_.outputs.as<float>(), rows, width, width};
}

void KvProjections::widen(Matrix outputs, int layer, const KvView& view, std::span<const SequenceView> sequences,
                          Matrix to) {
  const Buffer& squares = layers_[static_cast<size_t>(layer)].outputs;
  backend_.run(
      ProjectOp{outputs, queries_of(view), cut(squares, view, view.layout.shape.v_dim, dim_), sequences, to});
}

}  // namespace kvasir
