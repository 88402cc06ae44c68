#include "tune/rank_recorder.h"

#include "backend/host_rows.h"
#include "base/check.h"

namespace kvasir {
namespace {

void add_outer(Square& to, const float* row) {
  for (int i = 0; i < to.size; ++i) {
    for (int j = 0; j <= i; ++j) to(i, j) += static_cast<double>(row[i]) * static_cast<double>(row[j]);
  }
}

Square mean_of(const Square& lower, double count) {
  Square out(lower.size);
  for (int i = 0; i < out.size; ++i) {
    for (int j = 0; j <= i; ++j) out(i, j) = out(j, i) = lower(i, j) / count;
  }
  return out;
}

template <class Body>
void each_row(std::span<const SequenceView> sequences, const Body& body) {
  for (const SequenceView& sequence : sequences) {
    for (int i = 0; i < sequence.rows; ++i) body(sequence.first_row + i);
  }
}

}  // namespace

RankRecorder::RankRecorder(std::unique_ptr<Backend> plain, const ModelConfig& config)
    : ForwardingBackend(std::move(plain)),
      sums_(static_cast<size_t>(config.layers),
            std::vector<HeadMoments>(static_cast<size_t>(config.kv_heads), HeadMoments(config.head_dim))),
      heads_(config.heads) {}

std::vector<std::vector<HeadMoments>> RankRecorder::moments() const {
  CHECK(rows_ > 0);
  std::vector<std::vector<HeadMoments>> out = sums_;
  for (std::vector<HeadMoments>& heads : out) {
    const double keys = static_cast<double>(rows_);
    const double queries = keys * heads_ / static_cast<double>(heads.size());
    for (HeadMoments& head : heads) {
      head.keys = mean_of(head.keys, keys);
      head.queries = mean_of(head.queries, queries);
      head.outputs = mean_of(head.outputs, queries);
    }
  }
  return out;
}

void RankRecorder::kv_write(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) {
  ForwardingBackend::kv_write(k, v, view, sequences);
  const int dim = view.layout.shape.k_dim;
  const Matrix keys = download_rows(*this, k, host_keys_);
  each_row(sequences, [&](int row) {
    const float* at = keys.row(row);
    for (HeadMoments& head : sums_[layer_]) add_outer(head.keys, at), at += dim;
    if (layer_ == 0) ++rows_;
  });
}

void RankRecorder::attention(const AttentionBatch& batch, Matrix out) {
  ForwardingBackend::attention(batch, out);
  const KvShape& shape = batch.view.layout.shape;
  CHECK(shape.k_dim == shape.v_dim && batch.heads == heads_);
  const int share = batch.heads / shape.heads;
  const Matrix queries = download_rows(*this, batch.q, host_queries_);
  const Matrix outputs = download_rows(*this, out, host_outputs_);
  each_row(batch.sequences, [&](int row) {
    for (int h = 0; h < batch.heads; ++h) {
      HeadMoments& head = sums_[layer_][static_cast<size_t>(h / share)];
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(h) * shape.k_dim;
      add_outer(head.queries, queries.row(row) + at);
      add_outer(head.outputs, outputs.row(row) + at);
    }
  });
  layer_ = (layer_ + 1) % sums_.size();
}

}  // namespace kvasir
