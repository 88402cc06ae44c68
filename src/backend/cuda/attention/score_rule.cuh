// How products with keys become scores, in float32: every kernel that knows rules has these bits.
#pragma once

#include "backend/ops.h"

namespace kvasir::cuda {

// `product` is with the key as it is stored, times its row's scale; `distance` is key - query.
__device__ inline float score_of(const ScoreRule& rule, int head, float product, std::int64_t distance) {
  float score = __fmul_rn(product, rule.scale);
  if (rule.softcap != 0.0F) score = __fmul_rn(rule.softcap, tanhf(__fdiv_rn(score, rule.softcap)));
  const PositionBias& bias = rule.bias;
  if (bias.slopes != nullptr) {
    score = __fadd_rn(score, __fmul_rn(bias.slopes[head], static_cast<float>(distance)));
  }
  if (bias.table != nullptr) {
    score = __fadd_rn(score, bias.table[static_cast<std::int64_t>(head) * bias.width() + bias.place(distance)]);
  }
  return score;
}

}  // namespace kvasir::cuda
