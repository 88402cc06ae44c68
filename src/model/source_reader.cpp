#include "model/source_reader.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvasir {

SourceReader::SourceReader(const Parts& parts, std::unique_ptr<Model> encoder)
    : p_(parts), encoder_(std::move(encoder)) {}

void SourceReader::run(const Batch& batch, const KvStorage& storage) {
  views_.resize(batch.sequences.size());
  for (Sources left = batch.sources; !left.empty();) {
    const Sources now = left.first(fit(left));
    write(now, encode(now), storage);
    left = left.subspan(now.size());
  }
}

size_t SourceReader::fit(Sources sources) const {
  std::vector<std::span<const TokenId>> texts;
  for (const Batch::Source& source : sources) texts.push_back(source.tokens);
  return texts_that_fit(texts, encoder_->max_rows());
}

// The rows of all of them, one behind the other, in the encoder's memory.
Matrix SourceReader::encode(Sources sources) {
  if (!scratch_) scratch_.emplace(p_.backend, encoder_->config(), encoder_->max_rows(), KvStorage::Layers::kInTurn);
  read_ = {};
  read_.output = Batch::Output::kHidden;
  std::int64_t block = 0;
  for (const Batch::Source& source : sources) {
    const auto length = std::ssize(source.tokens);
    CHECK(length > 0 && length <= encoder_->max_rows());
    scratch_->add(source.tokens, 0, length, block, read_);
    block += blocks_for(length, ScratchRows::kBlockTokens);
  }
  for (int row = 0; row < read_.rows(); ++row) read_.logit_rows.push_back(row);
  return encoder_->forward(read_, scratch_->storage());
}

// In parts of as many rows as a step of the decoder has: a row's keys do not depend on where they are cut.
void SourceReader::write(Sources sources, Matrix rows, const KvStorage& storage) {
  for (int first = 0, end = 0; first < rows.rows; first = end) {
    end = std::min(first + p_.max_rows, rows.rows);
    view_rows(sources, first, end);
    p_.backend.begin_batch(views_, storage.block_tokens());
    write_layers({rows.row(first), end - first, rows.cols, rows.stride}, storage);
    p_.backend.end_batch();
  }
}

void SourceReader::view_rows(Sources sources, int first, int end) {
  for (std::vector<SequenceView>& views : views_) views.clear();
  int begin = 0;  // of a source, among all rows
  for (const Batch::Source& source : sources) {
    const int length = static_cast<int>(source.tokens.size());
    const int from = std::max(first, begin);
    const int to = std::min(end, begin + length);
    for (const auto& [group, blocks] : source.into) {
      if (from < to) views_[group].push_back({blocks, from - begin, from - first, to - from});
    }
    begin += length;
  }
}

void SourceReader::write_layers(Matrix rows, const KvStorage& storage) {
  for (int layer = 0; layer < p_.spec.layer_count(); ++layer) {
    const AttentionSpec& attention = p_.spec.attention(layer);
    if (!attention.of_source) continue;
    const LayerWeights& weights = p_.weights.layers[static_cast<size_t>(layer)];
    const Matrix kv = as_matrix(p_.space.source_kv, rows.rows, attention.source_width());
    const auto* bias = weights.source_kv_bias.as<float>();
    int column = 0;
    for (const auto& weight : weights.source_kv) {
      p_.backend.run(MatmulOp{weight.get(), rows, bias == nullptr ? nullptr : bias + column,
                              kv.columns(column, weight->outputs())});
      column += weight->outputs();
    }
    const int keys = attention.kv.heads * attention.kv.k_dim;
    const Matrix k = kv.columns(0, keys);
    const Matrix v = kv.columns(keys, attention.kv.heads * attention.kv.v_dim);
    for (size_t group = 0; group < views_.size(); ++group) {
      if (views_[group].empty() || !storage.caches(group, layer)) continue;
      p_.backend.run(KvWriteOp{k, v, storage.view(group, layer), std::span<const SequenceView>(views_[group])});
    }
  }
}

}  // namespace kvasir
