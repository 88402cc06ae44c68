#include "backend/cuda/batch_ops.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace kvasir::cuda {
namespace {

auto key(const Matrix& m) { return std::tuple(m.data, m.rows, m.cols, m.stride); }
auto key(const NormRule& rule) { return std::tuple(rule.weight, rule.eps); }
auto key(const NormedRows& rows) { return std::tuple(key(rows.x), key(rows.y), key(rows.norm), key(rows.normed)); }
auto key(const GatedLayer& layer) {
  return std::tuple(layer.gate_up, layer.gate_up_bias, layer.down, layer.down_bias);
}
auto key(const RopeTable& table) { return std::tuple(table.cos, table.sin, table.pairs, table.places); }
auto key_but_layer(const KvView& view) {
  const KvLayout& layout = view.layout;
  return std::tuple(view.arena, layout.block_tokens, layout.layers, layout.shape, layout.k_format, layout.v_format,
                    view.retention, view.per_page, view.page_bytes, view.finer, view.sink_position);
}
auto key(const KvView& view) { return std::tuple(key_but_layer(view), view.layer); }
auto key(std::span<const SequenceView> sequences) { return std::tuple(sequences.data(), sequences.size()); }

auto key(const EmbedOp& op) { return std::tuple(op.table, op.tokens.sent, op.tokens.drawn, key(op.out)); }
auto key(const CopyOp& op) { return std::tuple(op.to, op.from, op.bytes); }
auto key(const NormOp& op) { return std::tuple(key(op.x), key(op.rule), key(op.out)); }
auto key(const AddNormOp& op) { return std::tuple(key(op.x), key(op.y), key(op.rule), key(op.out)); }
auto key(const MatmulOp& op) { return std::tuple(op.weight, key(op.x), op.bias, key(op.out)); }
auto key(const RopeOp& op) { return std::tuple(key(op.x), op.heads, key(op.table)); }
auto key(const TurnWriteOp& op) {
  return std::tuple(key(op.rows.q), key(op.rows.k), key(op.rows.v), op.rows.heads, op.rows.kv_heads,
                    key(op.rows.table), key(op.view), key(op.sequences));
}
auto key(const GatedOp& op) { return std::tuple(op.weight, key(op.gate), key(op.up), op.bias, key(op.out)); }
auto key(const WriteOp& op) { return std::tuple(key(op.k), key(op.v), key(op.view), key(op.sequences)); }
auto key(const AttentionOp& op) {
  const AttentionBatch& batch = op.batch;
  return std::tuple(key(batch.q), key(batch.view), key(batch.sequences), batch.heads, batch.scale, batch.states,
                    key(op.out));
}
auto key(const SwigluOp& op) { return std::tuple(key(op.gate), key(op.up), key(op.out)); }
auto key(const NormMatmulOp& op) { return std::tuple(key(op.rows), op.weight, op.bias, key(op.out)); }
auto key(const FeedForwardOp& op) { return std::tuple(key(op.rows), key(op.layer), key(op.gate_up), key(op.out)); }
auto key(const AddOp& op) { return std::tuple(key(op.x), key(op.y)); }
auto key(const DrawOp& op) { return std::tuple(key(op.rows.logits), op.rows.rules, op.rows.on_host, op.rows.tokens); }

}  // namespace

bool same(const BatchOp& a, const BatchOp& b) {
  if (a.index() != b.index()) return false;
  return std::visit([&b](const auto& op) { return key(op) == key(std::get<std::decay_t<decltype(op)>>(b)); }, a);
}

bool same_but_layer(const AttentionBatch& a, const AttentionBatch& b) {
  return key(a.sequences) == key(b.sequences) && a.heads == b.heads && key_but_layer(a.view) == key_but_layer(b.view);
}

bool same(const std::vector<BatchOp>& a, const std::vector<BatchOp>& b) {
  return std::ranges::equal(a, b, [](const BatchOp& x, const BatchOp& y) { return same(x, y); });
}

void RecordedOps::begin_again(size_t count) {
  CHECK(count <= ops_.size() && !changed_);
  count_ = count;
}

void RecordedOps::add(const BatchOp& op) {
  if (count_ == ops_.size()) {
    ops_.push_back(op);
    changed_ = true;
  } else if (!same(ops_[count_], op)) {
    ops_[count_] = op;
    changed_ = true;
  }
  ++count_;
}

void RecordedOps::end() {
  changed_ = changed_ || count_ != ops_.size();
  if (!std::exchange(changed_, false)) return;
  ops_.resize(count_);
  ++version_;
  attention_.clear();
  const AttentionBatch* before = nullptr;
  for (const BatchOp& op : ops_) {
    const auto* one = std::get_if<AttentionOp>(&op);
    if (one == nullptr) continue;
    if (before == nullptr || !same_but_layer(*before, one->batch)) attention_.push_back(&one->batch);
    before = &one->batch;
  }
}

}  // namespace kvasir::cuda
