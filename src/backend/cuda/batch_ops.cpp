#include "backend/cuda/batch_ops.h"

#include <utility>

#include "backend/cuda/attention/cuda_attention.h"
#include "base/check.h"

namespace kvasir::cuda {

bool same_but_layer(const AttentionBatch& a, const AttentionBatch& b) {
  KvView view = a.view;
  view.layer = b.view.layer;
  view.first_head = b.view.first_head;
  const bool by_kernels_alike = needs_any_rule(a) == needs_any_rule(b) && a.rule.mask == b.rule.mask;
  return a.sequences == b.sequences && a.heads == b.heads && view == b.view && by_kernels_alike;
}

void RecordedOps::begin_again(size_t count) {
  CHECK(count <= ops_.size() && !changed_);
  count_ = count;
}

void RecordedOps::add(const BatchOp& op) {
  if (count_ == ops_.size()) {
    ops_.push_back(op);
    changed_ = true;
  } else if (!(ops_[count_] == op)) {
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
