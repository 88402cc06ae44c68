// Recurrent layers: lanes are channels, or columns of a head's matrix, so that no sum runs across them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/recurrent_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target, which re-includes this file once per target.
#include <hwy/highway.h>

#include <cmath>

#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::cpu::HWY_NAMESPACE {

HWY_INLINE Lanes silu(const Lanes& x) {
  const Lanes one = broadcast(1.0F);
  return mul(x, div(one, add(one, exp(sub(broadcast(0.0F), x)))));
}

void convolve(const ConvTask& task) {
  Lanes inputs[kMostConvWeights];  // the oldest first
  Lanes weights[kMostConvWeights];
  for (int j = 0; j <= task.before; ++j) weights[j] = load_some(task.weight + j * task.channels, task.columns);
  for (int j = 0; j < task.before; ++j) {
    inputs[j] = task.fresh ? broadcast(0.0F) : load_some(task.kept + j * task.channels, task.columns);
  }
  const Lanes bias = task.bias == nullptr ? broadcast(0.0F) : load_some(task.bias, task.columns);
  for (int row = 0; row < task.rows; ++row) {
    inputs[task.before] = load_some(task.x + row * task.x_stride, task.columns);
    Lanes sum = bias;
    for (int j = 0; j <= task.before; ++j) sum = fma(weights[j], inputs[j], sum);
    for (int j = 0; j < task.before; ++j) inputs[j] = inputs[j + 1];
    const Lanes bent = task.bend == CausalConvOp::Bend::kSilu ? silu(sum) : sum;
    store_some(bent, task.out + row * task.out_stride, task.columns);
  }
  for (int j = 0; j < task.before; ++j) store_some(inputs[j], task.kept + j * task.channels, task.columns);
}

// Sums along the rows of S go through as many chains, so that they do not wait for each other.
constexpr int kChains = 4;

HWY_INLINE Lanes sum_of(const Lanes (&chains)[kChains]) {
  return add(add(chains[0], chains[1]), add(chains[2], chains[3]));
}

// S times a row's decay; what its keys then find in it.
HWY_INLINE Lanes decayed(const RecurrenceTask& task, int row, float* s) {
  const float* decay = task.decay.row(row);
  const float* k = task.k.row(row);
  const bool by_row = task.decay.cols > 1;
  Lanes seen[kChains];
  for (Lanes& chain : seen) chain = broadcast(0.0F);
  for (int i = 0; i < task.k.cols; ++i) {
    const Lanes left = mul(load(s + i * kLanes), broadcast(decay[by_row ? i : 0]));
    store(left, s + i * kLanes);
    seen[i % kChains] = fma(broadcast(k[i]), left, seen[i % kChains]);
  }
  return sum_of(seen);
}

// What a row's queries find, and the next row's keys.
struct Found {
  Lanes queried;
  Lanes seen;
};

// S and the row's keys times what is written, where its queries look; then, unless it is the last, S times the next
// row's decay, where that one's keys look: S comes and goes once a row.
template <bool kLast>
HWY_INLINE Found written(const RecurrenceTask& task, int row, const Lanes& value, float* s) {
  const float* k = task.k.row(row);
  const float* q = task.q.row(row);
  const float* next_k = kLast ? nullptr : task.k.row(row + 1);
  const float* next_decay = kLast ? nullptr : task.decay.row(row + 1);
  const int step = task.decay.cols > 1 ? 1 : 0;
  Lanes found[kChains];
  Lanes seen[kChains];
  for (int chain = 0; chain < kChains; ++chain) found[chain] = seen[chain] = broadcast(0.0F);
  for (int i = 0; i < task.k.cols; ++i) {
    const Lanes now = fma(broadcast(k[i]), value, load(s + i * kLanes));
    found[i % kChains] = fma(broadcast(q[i]), now, found[i % kChains]);
    if constexpr (kLast) {
      store(now, s + i * kLanes);
    } else {
      const Lanes left = mul(now, broadcast(next_decay[i * step]));
      store(left, s + i * kLanes);
      seen[i % kChains] = fma(broadcast(next_k[i]), left, seen[i % kChains]);
    }
  }
  return {sum_of(found), sum_of(seen)};
}

// What is written into S, where a row's keys have seen what they have.
HWY_INLINE Lanes value_of(const RecurrenceTask& task, int row, const Lanes& v, const Lanes& seen) {
  const float strength = task.strength.row(row)[0];
  if (task.rule == RecurrenceOp::Rule::kAdd) return mul(broadcast(strength), v);
  return mul(broadcast(1.0F / (1.0F + std::exp(-strength))), sub(v, seen));
}

// One row of 16 columns, on S as it lies: the same operations as by many rows.
void recur_once(const RecurrenceTask& task) {
  const float* decay = task.decay.row(0);
  const float* k = task.k.row(0);
  const float* q = task.q.row(0);
  const int step = task.decay.cols > 1 ? 1 : 0;
  const auto decayed_row = [&](int i) {
    const Lanes from = task.fresh ? broadcast(0.0F) : load(task.s + static_cast<std::ptrdiff_t>(i) * task.s_stride);
    return mul(from, broadcast(decay[i * step]));
  };
  Lanes seen[kChains];
  Lanes found[kChains];
  for (int chain = 0; chain < kChains; ++chain) found[chain] = seen[chain] = broadcast(0.0F);
  for (int i = 0; i < task.k.cols; ++i) {
    seen[i % kChains] = fma(broadcast(k[i]), decayed_row(i), seen[i % kChains]);
  }
  const Lanes v = load(task.v.row(0));
  const Lanes value = value_of(task, 0, v, sum_of(seen));
  for (int i = 0; i < task.k.cols; ++i) {
    const Lanes now = fma(broadcast(k[i]), value, decayed_row(i));
    store(now, task.s + static_cast<std::ptrdiff_t>(i) * task.s_stride);
    found[i % kChains] = fma(broadcast(q[i]), now, found[i % kChains]);
  }
  store(fma(broadcast(task.skip), v, sum_of(found)), task.out.row(0));
}

void recur(const RecurrenceTask& task) {
  HWY_ALIGN float s[kMostStateRows * kLanes];
  const int columns = task.v.cols;
  if (task.v.rows == 1 && columns == kLanes) return recur_once(task);
  for (int i = 0; i < task.k.cols; ++i) {
    const Lanes from =
        task.fresh ? broadcast(0.0F) : load_some(task.s + static_cast<std::ptrdiff_t>(i) * task.s_stride, columns);
    store(from, s + i * kLanes);
  }
  Lanes seen = task.v.rows > 0 ? decayed(task, 0, s) : broadcast(0.0F);
  for (int row = 0; row < task.v.rows; ++row) {
    const Lanes v = load_some(task.v.row(row), columns);
    const Lanes value = value_of(task, row, v, seen);
    const Found found =
        row + 1 == task.v.rows ? written<true>(task, row, value, s) : written<false>(task, row, value, s);
    store_some(fma(broadcast(task.skip), v, found.queried), task.out.row(row), columns);
    seen = found.seen;
  }
  for (int i = 0; i < task.k.cols; ++i) {
    store_some(load(s + i * kLanes), task.s + static_cast<std::ptrdiff_t>(i) * task.s_stride, columns);
  }
}

RecurrentKernels recurrent_table() { return {&convolve, &recur}; }

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/targets.h"

namespace kvasir::cpu {

RecurrentKernels recurrent_kernels(Isa isa) { KVASIR_CHOOSE(isa, recurrent_table); }

}  // namespace kvasir::cpu
#endif
