#include "tune/disturbed_backend.h"

#include <algorithm>

#include "layout/row_codec.h"

namespace kvasir {

// As V: a row's numbers do not depend on which of both it is.
void round_trip(KvFormat format, std::span<float> row) {
  const auto dim = static_cast<int>(row.size());
  KvView view;
  view.layout = make_layout({{0}, {1, dim, dim}, format, format, {}}, 1);
  std::vector<std::byte> block(static_cast<size_t>(view.layout.block_bytes()));
  view.arena = block.data();
  encode_v(view, {0, 0, 0}, row.data());
  decode_v(view, {0, 0, 0}, row.data());
  turn(format, row.data(), dim);
}

void DisturbedBackend::kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) {
  if (!what_ || what_->layer != view.layer) return ForwardingBackend::kv_write(k, v, view, sequences);
  Matrix& part = what_->part == 0 ? k : v;
  const int dim = what_->part == 0 ? view.layout.shape.k_dim : view.layout.shape.v_dim;
  rows_.resize(static_cast<size_t>(part.rows) * static_cast<size_t>(part.cols));
  const Matrix own{rows_.data(), part.rows, part.cols, part.cols};
  for (int r = 0; r < part.rows; ++r) {
    std::copy_n(part.row(r), part.cols, own.row(r));
    round_trip(what_->format,
               {own.row(r) + static_cast<std::ptrdiff_t>(what_->head) * dim, static_cast<size_t>(dim)});
  }
  part = own;
  ForwardingBackend::kv_write(k, v, view, sequences);
}

}  // namespace kvasir
