// Activations in float32, one number at a time. Comparisons are written so that NaN stays what it is.
#pragma once

#include "backend/activation_function.h"

namespace kvasir::cuda {

__device__ inline float sigmoid_times(float x, float by) { return __fdiv_rn(by, __fadd_rn(1.0F, expf(-x))); }

__device__ inline float activated(Activation activation, float x) {
  switch (activation) {
    case Activation::kSilu:
      return sigmoid_times(x, x);
    case Activation::kGelu:
      return __fmul_rn(__fmul_rn(0.5F, x), erfcf(__fmul_rn(-x, 0.70710678F)));
    case Activation::kGeluTanh: {
      // (1 + tanh(u)) / 2 is the sigmoid of 2 u, which loses nothing where tanh is nearly -1.
      constexpr float kTwoRoots = 1.5957691F;  // 2 sqrt(2 / pi)
      const float cube = __fmul_rn(__fmul_rn(__fmul_rn(0.044715F, x), x), x);
      return sigmoid_times(__fmul_rn(kTwoRoots, __fadd_rn(x, cube)), x);
    }
    case Activation::kRelu:
      return x < 0.0F ? 0.0F : x;
    case Activation::kReluSquared:
      return x < 0.0F ? 0.0F : __fmul_rn(x, x);
    case Activation::kSwigluOai:
      return sigmoid_times(__fmul_rn(kSwigluOaiAlpha, x), x);
  }
  return x;
}

// Of a gate and its up; `limit` is that of kSwigluOai.
__device__ inline float gated(Activation activation, float gate, float up, float limit) {
  if (activation != Activation::kSwigluOai) return __fmul_rn(activated(activation, gate), up);
  const float held_up = up < -limit ? -limit : limit < up ? limit : up;
  return __fmul_rn(activated(activation, limit < gate ? limit : gate), __fadd_rn(held_up, 1.0F));
}

}  // namespace kvasir::cuda
