#include "tune/quantize_one_head_backend.h"

#include "backend/host_rows.h"
#include "backend/lower.h"
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

void QuantizeOneHeadBackend::run(const Op& op) {
  const auto* write = std::get_if<KvWriteOp>(&op);
  const auto* fused = std::get_if<RopeKvWriteOp>(&op);
  if (fused != nullptr) {
    lower(*fused, *this);
  } else if (write != nullptr && what_ && what_->layer == write->view.layer) {
    write_quantized(*write);
  } else {
    ForwardingBackend::run(op);
  }
}

void QuantizeOneHeadBackend::write_quantized(KvWriteOp op) {
  Matrix& part = what_->part == 0 ? op.k : op.v;
  const int dim = what_->part == 0 ? op.view.layout.shape.k_dim : op.view.layout.shape.v_dim;
  const Matrix own = download_rows(*this, part, host_rows_);
  for (int r = 0; r < own.rows; ++r) {
    round_trip(what_->format,
               {own.row(r) + static_cast<std::ptrdiff_t>(what_->head) * dim, static_cast<size_t>(dim)});
  }
  const auto bytes = std::as_bytes(std::span(host_rows_));
  if (rows_.bytes() < bytes.size()) rows_ = allocate(bytes.size());
  upload(rows_.as<std::byte>(), bytes);
  part.data = rows_.as<float>();
  ForwardingBackend::run(op);
}

}  // namespace kvasir
