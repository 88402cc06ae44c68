#include "tune/rank_recorder.h"

#include "backend/host_rows.h"
#include "backend/lower.h"
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

RankRecorder::RankRecorder(std::unique_ptr<Backend> plain, const ModelSpec& config)
    : ForwardingBackend(std::move(plain)),
      sums_(config.layers.size(), std::vector<HeadMoments>(static_cast<size_t>(config.uniform_attention().kv.heads),
                                                           HeadMoments(config.uniform_attention().kv.k_dim))),
      heads_(config.uniform_attention().heads) {}

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

void RankRecorder::run(const Op& op) {
  if (const auto* fused = std::get_if<RopeKvWriteOp>(&op)) return lower(*fused, *this);
  ForwardingBackend::run(op);
  if (const auto* write = std::get_if<KvWriteOp>(&op)) add_keys(*write);
  if (const auto* attention = std::get_if<AttentionOp>(&op)) add_queries(*attention);
}

void RankRecorder::add_keys(const KvWriteOp& op) {
  const int dim = op.view.layout.shape.k_dim;
  const Matrix keys = download_rows(*this, op.k, host_keys_);
  each_row(op.sequences, [&](int row) {
    const float* at = keys.row(row);
    for (HeadMoments& head : sums_[layer_]) add_outer(head.keys, at), at += dim;
    if (layer_ == 0) ++rows_;
  });
}

void RankRecorder::add_queries(const AttentionOp& op) {
  const AttentionBatch& batch = op.batch;
  const KvShape& shape = batch.view.layout.shape;
  CHECK(shape.k_dim == shape.v_dim && batch.heads == heads_);
  const int share = batch.heads / shape.heads;
  const Matrix queries = download_rows(*this, batch.q, host_queries_);
  const Matrix outputs = download_rows(*this, op.out, host_outputs_);
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
