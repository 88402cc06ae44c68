// A partial softmax-weighted sum: o = Σ e^(s-m)·v, m = max s, d = Σ e^(s-m), over some keys.
//
// Partials over disjoint keys merge into one over their union. Splits of the context, shared prefixes and tiers all
// reduce to this. Floating-point merging is not associative: whoever merges does it in the order of the context.
#pragma once

#include <cmath>
#include <limits>

#include "layout/host_device.h"

namespace kvasir {

struct SoftmaxState {
  float m = -std::numeric_limits<float>::infinity();
  float d = 0.0F;

  KVASIR_HD bool empty() const { return d == 0.0F; }
};

// The two factors by which the halves of a merge are scaled, and the state of the whole.
struct SoftmaxMerge {
  SoftmaxState state;
  float first_scale = 0.0F;
  float second_scale = 0.0F;
};

// An empty half gets scale 0 and never makes a NaN of (-inf) - (-inf).
KVASIR_HD inline SoftmaxMerge merge(const SoftmaxState& first, const SoftmaxState& second) {
  SoftmaxMerge out;
  if (first.empty()) {
    out.state = second;
    out.second_scale = second.empty() ? 0.0F : 1.0F;
    return out;
  }
  if (second.empty()) {
    out.state = first;
    out.first_scale = 1.0F;
    return out;
  }
  out.state.m = first.m > second.m ? first.m : second.m;
  out.first_scale = std::exp(first.m - out.state.m);
  out.second_scale = std::exp(second.m - out.state.m);
  out.state.d = std::fma(first.d, out.first_scale, second.d * out.second_scale);
  return out;
}

}  // namespace kvasir
