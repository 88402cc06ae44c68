// What a rule does to scores beyond a scale. Included once per target by foreach_target. Scores behind what a row
// sees may be anything, before and afterwards: they are masked later.

#if defined(KVASIR_SCORE_RULE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_SCORE_RULE_INL_H_
#undef KVASIR_SCORE_RULE_INL_H_
#else
#define KVASIR_SCORE_RULE_INL_H_
#endif

#include <hwy/highway.h>

#include "backend/cpu/attention_split.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::cpu::HWY_NAMESPACE {

// Within 2 ulp, as Cephes computes it: a polynomial near 0, where 1 - 2 / (e^2x + 1) would lose its digits.
HWY_INLINE FloatVec tanh_vec(FloatVec x) {
  const FloatTag f;
  const FloatVec magnitude = hn::Abs(x);
  const FloatVec square = hn::Mul(x, x);
  FloatVec p = hn::Set(f, -5.70498872745e-3F);
  p = fused(p, square, hn::Set(f, 2.06390887954e-2F));
  p = fused(p, square, hn::Set(f, -5.37397155531e-2F));
  p = fused(p, square, hn::Set(f, 1.33314422036e-1F));
  p = fused(p, square, hn::Set(f, -3.33332819422e-1F));
  const FloatVec small = fused(hn::Mul(p, square), x, x);
  const FloatVec one = hn::Set(f, 1.0F);
  const FloatVec e = exp_vec(hn::Add(magnitude, magnitude));
  const FloatVec large = hn::Sub(one, hn::Div(hn::Set(f, 2.0F), hn::Add(e, one)));
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(f, 0.625F)), small, hn::CopySign(large, x));
}

HWY_INLINE void cap_scores(float cap, float* scores, int tiles) {
  const Lanes caps = broadcast(cap);
  for (int tile = 0; tile < tiles; ++tile) {
    const Lanes share = div(load(scores + tile * kLanes), caps);
    Lanes bounded;
    for (int i = 0; i < kParts; ++i) bounded.part[i] = tanh_vec(share.part[i]);
    store(mul(caps, bounded), scores + tile * kLanes);
  }
}

HWY_INLINE void add_bias(const AttendTask& task, int row, const SplitRange& range, float* scores, int tiles) {
  const PositionBias& bias = task.rule.bias;
  const Position first = range.begin - task.queries[row];  // how far the split's first key is
  HWY_ALIGN float numbers[kLanes];
  for (int tile = 0; tile < tiles && bias.slopes != nullptr; ++tile) {
    for (int i = 0; i < kLanes; ++i) numbers[i] = static_cast<float>(first + tile * kLanes + i);
    float* at = scores + tile * kLanes;
    store(fma(broadcast(bias.slopes[task.heads[row]]), load(numbers), load(at)), at);
  }
  if (bias.table == nullptr) return;
  const float* table = bias.table + static_cast<std::ptrdiff_t>(task.heads[row]) * bias.width();
  for (int i = 0; i < tiles * kLanes; ++i) scores[i] += table[bias.place(first + i)];
}

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
