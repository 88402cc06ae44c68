// Attention over two sets of keys, each already a mean, as one: the same plain loop for every host backend.
#pragma once

#include "backend/backend.h"

namespace kvasir {

inline void merge_part_rows(const AttentionPart& into, const AttentionPart& from, int row) {
  const int heads = into.heads;
  const int dim = into.out.cols / heads;
  for (int head = 0; head < heads; ++head) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * heads + head;
    const SoftmaxMerge merged = merge(into.states[at], from.states[at]);
    if (merged.state.empty()) continue;  // nothing is seen: zeros stay
    const float first = into.states[at].d * merged.first_scale / merged.state.d;
    const float second = from.states[at].d * merged.second_scale / merged.state.d;
    float* x = into.out.row(row) + static_cast<std::ptrdiff_t>(head) * dim;
    const float* y = from.out.row(row) + static_cast<std::ptrdiff_t>(head) * dim;
    for (int i = 0; i < dim; ++i) x[i] = x[i] * first + y[i] * second;
    into.states[at] = merged.state;
  }
}

}  // namespace kvasir
