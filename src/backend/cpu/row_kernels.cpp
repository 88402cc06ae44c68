// Norms, gates and rotations: one row, or one head, a call.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/row_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target, which re-includes this file once per target.
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::cpu::HWY_NAMESPACE {

// The last, partial group of a row, padded: padding adds zeros to sums, which changes no bit.
struct Tail {
  HWY_ALIGN float values[kLanes] = {};
};

HWY_INLINE Tail tail_of(const float* x, int from, int n) {
  Tail tail;
  std::memcpy(tail.values, x + from, static_cast<size_t>(n - from) * sizeof(float));
  return tail;
}

HWY_INLINE float sum_of_squares(const float* x, float mean, int n) {
  const Lanes middle = broadcast(mean);
  Lanes sums = broadcast(0.0F);
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Lanes v = sub(load(x + i), middle);
    sums = fma(v, v, sums);
  }
  if (i < n) {
    Tail tail = tail_of(x, i, n);
    for (int j = 0; j < n - i; ++j) tail.values[j] -= mean;
    const Lanes v = load(tail.values);
    sums = fma(v, v, sums);
  }
  return sum_lanes(sums);
}

HWY_INLINE float sum_of(const float* x, int n) {
  Lanes sums = broadcast(0.0F);
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) sums = add(sums, load(x + i));
  if (i < n) sums = add(sums, load(tail_of(x, i, n).values));
  return sum_lanes(sums);
}

// 16 numbers, none of them beyond 127, to the nearest integer, ties to even; the sum of these.
HWY_INLINE std::int32_t put_rounded(const Lanes& lanes, std::int8_t* to) {
#if HWY_TARGET == HWY_SCALAR
  std::int32_t sum = 0;
  for (int i = 0; i < kLanes; ++i) {
    to[i] = static_cast<std::int8_t>(std::nearbyint(lanes.part[i].raw));
    sum += to[i];
  }
  return sum;
#else
  const hn::RebindToSigned<FloatTag> i32;
  const hn::Rebind<std::int8_t, FloatTag> i8;
  auto sums = hn::Zero(i32);
  for (int i = 0; i < kParts; ++i) {
    const auto rounded = hn::NearestInt(lanes.part[i]);
    hn::StoreU(hn::DemoteTo(i8, rounded), i8, to + i * kPart);
    sums = hn::Add(sums, rounded);
  }
  return hn::GetLane(hn::SumOfLanes(i32, sums));
#endif
}

// The largest magnitude of a block, as bits: they are in the order of the numbers, and what is no number is above
// all.
HWY_INLINE std::uint32_t largest_of_block(const float* x) {
  const hn::RebindToUnsigned<FloatTag> u32;
  auto largest = hn::Zero(u32);
  for (int i = 0; i < kInt8Block; i += static_cast<int>(hn::Lanes(u32))) {
    largest = hn::Max(largest, hn::BitCast(u32, hn::Abs(hn::LoadU(FloatTag(), x + i))));
  }
  return hn::GetLane(hn::MaxOfLanes(u32, largest));
}
HWY_INLINE float as_float(std::uint32_t bits) {
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

void quantize(const float* x, int n, Int8Block* out) {
  for (; n > 0; n -= kInt8Block, x += kInt8Block, ++out) {
    const float top = as_float(largest_of_block(x));
    *out = {};
    if (top < kTiniest) continue;
    out->scale = top / 127.0F;
    if (!std::isfinite(out->scale)) continue;  // the scale alone then carries what is wrong
    const Lanes turn = broadcast(127.0F / top);
    for (int i = 0; i < kInt8Block; i += kLanes) out->sum += put_rounded(mul(load(x + i), turn), out->q + i);
  }
}

void quantize_groups(const float* x, int n, Int8Group* out) {
  constexpr int kBlocks = kInt8Group / kInt8Block;
  for (; n > 0; n -= kInt8Group, x += kInt8Group, ++out) {
    std::uint32_t tops[kBlocks];
    std::uint32_t most = 0;
    for (int b = 0; b < kBlocks; ++b) {
      tops[b] = largest_of_block(x + b * kInt8Block);
      most = tops[b] > most ? tops[b] : most;
    }
    const float top = as_float(most);
    *out = {};
    if (top < kTiniest) continue;
    out->unit = top / static_cast<float>(127 << kMostShift);
    if (!std::isfinite(out->unit)) continue;  // the unit alone then carries what is wrong
    for (int i = 0; i < kInt8Group; i += kLanes) {
      const int b = i / kInt8Block;
      if (i % kInt8Block == 0) out->shifts[b] = shift_of(as_float(tops[b]), top);
      const Lanes turn = broadcast(127.0F / top * static_cast<float>(1 << (kMostShift - out->shifts[b])));
      out->sums[i / kLanes] = put_rounded(mul(load(x + i), turn), out->q + i);
    }
  }
}

void rms_norm(const float* x, const float* weight, float eps, int n, float* out) {
  const float scale = 1.0F / std::sqrt(sum_of_squares(x, 0.0F, n) / static_cast<float>(n) + eps);
  const Lanes scales = broadcast(scale);
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(mul(mul(load(x + i), scales), load(weight + i)), out + i);
  for (; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, int n, float* out) {
  const float mean = sum_of(x, n) / static_cast<float>(n);
  const float scale = 1.0F / std::sqrt(sum_of_squares(x, mean, n) / static_cast<float>(n) + eps);
  const Lanes means = broadcast(mean);
  const Lanes scales = broadcast(scale);
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Lanes normed = mul(mul(sub(load(x + i), means), scales), load(weight + i));
    store(bias == nullptr ? normed : add(normed, load(bias + i)), out + i);
  }
  for (; i < n; ++i) {
    const float normed = (x[i] - mean) * scale * weight[i];
    out[i] = bias == nullptr ? normed : normed + bias[i];
  }
}

HWY_INLINE Lanes gated(const Lanes& gate, const Lanes& up) {
  const Lanes one = broadcast(1.0F);
  const Lanes denominator = add(one, exp(sub(broadcast(0.0F), gate)));
  return mul(div(gate, denominator), up);
}

void swiglu(const float* gate, const float* up, int n, float* out) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(gated(load(gate + i), load(up + i)), out + i);
  if (i == n) return;
  HWY_ALIGN float padded[kLanes];
  store(gated(load(tail_of(gate, i, n).values), load(tail_of(up, i, n).values)), padded);
  std::memcpy(out + i, padded, static_cast<size_t>(n - i) * sizeof(float));
}

HWY_INLINE Lanes sigmoid(const Lanes& x) {
  const Lanes one = broadcast(1.0F);
  return div(one, add(one, exp(sub(broadcast(0.0F), x))));
}

// 0.5 (1 + tanh(u)) is sigmoid(2 u).
HWY_INLINE Lanes gelu_tanh(const Lanes& x) {
  const Lanes cubic = fma(mul(mul(x, x), x), broadcast(0.044715F), x);
  return mul(x, sigmoid(mul(cubic, broadcast(1.5957691216057308F))));
}

// Abramowitz and Stegun 7.1.26: to 1.5e-7.
HWY_INLINE Lanes gelu(const Lanes& x) {
  const Lanes zero = broadcast(0.0F);
  const Lanes one = broadcast(1.0F);
  const Lanes z = mul(max(x, sub(zero, x)), broadcast(0.70710678118654752F));
  const Lanes t = div(one, fma(z, broadcast(0.3275911F), one));
  Lanes sum = broadcast(1.061405429F);
  for (const float next : {-1.453152027F, 1.421413741F, -0.284496736F, 0.254829592F})
    sum = fma(sum, t, broadcast(next));
  // What is left of 1 - erf(|x| / sqrt 2): half of it times |x| is taken from max(x, 0).
  const Lanes rest = mul(mul(sum, t), exp(sub(zero, mul(z, z))));
  return sub(max(x, zero), mul(mul(broadcast(0.5F), max(x, sub(zero, x))), rest));
}

template <class Bend>
HWY_INLINE void activate_row(const float* x, const float* up, int n, float* out, const Bend& bend) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Lanes bent = bend(load(x + i));
    store(up == nullptr ? bent : mul(bent, load(up + i)), out + i);
  }
  if (i == n) return;
  HWY_ALIGN float padded[kLanes];
  const Lanes bent = bend(load(tail_of(x, i, n).values));
  store(up == nullptr ? bent : mul(bent, load(tail_of(up, i, n).values)), padded);
  std::memcpy(out + i, padded, static_cast<size_t>(n - i) * sizeof(float));
}

void activate(Activation activation, const float* x, const float* up, int n, float* out) {
  switch (activation) {
    case Activation::kIdentity:
      return activate_row(x, up, n, out, [](const Lanes& v) { return v; });
    case Activation::kSilu:
      return activate_row(x, up, n, out, [](const Lanes& v) { return mul(v, sigmoid(v)); });
    case Activation::kGelu:
      return activate_row(x, up, n, out, [](const Lanes& v) { return gelu(v); });
    case Activation::kGeluTanh:
      return activate_row(x, up, n, out, [](const Lanes& v) { return gelu_tanh(v); });
    case Activation::kRelu:
      return activate_row(x, up, n, out, [](const Lanes& v) { return max(v, broadcast(0.0F)); });
    case Activation::kReluSquared:
      return activate_row(x, up, n, out, [](const Lanes& v) {
        const Lanes positive = max(v, broadcast(0.0F));
        return mul(positive, positive);
      });
    case Activation::kSwigluOai:
      break;  // swiglu_oai()
  }
}

HWY_INLINE Lanes swiglu_oai(const Lanes& gate, const Lanes& up, float limit) {
  const Lanes g = min(gate, broadcast(limit));
  const Lanes u = max(min(up, broadcast(limit)), broadcast(-limit));
  return mul(mul(g, sigmoid(mul(g, broadcast(kSwigluOaiAlpha)))), add(u, broadcast(1.0F)));
}

void swiglu_oai(const float* gate, const float* up, float limit, int n, float* out) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(swiglu_oai(load(gate + i), load(up + i), limit), out + i);
  if (i == n) return;
  HWY_ALIGN float padded[kLanes];
  store(swiglu_oai(load(tail_of(gate, i, n).values), load(tail_of(up, i, n).values), limit), padded);
  std::memcpy(out + i, padded, static_cast<size_t>(n - i) * sizeof(float));
}

void add_row(float* x, const float* y, int n) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(add(load(x + i), load(y + i)), x + i);
  for (; i < n; ++i) x[i] += y[i];
}

void add_scaled_row(float* x, const float* y, float scale, int n) {
  const Lanes scales = broadcast(scale);
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(add(load(x + i), mul(scales, load(y + i))), x + i);
  for (; i < n; ++i) x[i] += scale * y[i];
}

void rotate(float* head, const float* cos, const float* sin, int pairs) {
  float* other = head + pairs;
  int i = 0;
  for (; i + kLanes <= pairs; i += kLanes) {
    const Lanes a = load(head + i);
    const Lanes b = load(other + i);
    const Lanes c = load(cos + i);
    const Lanes s = load(sin + i);
    store(sub(mul(a, c), mul(b, s)), head + i);
    store(add(mul(b, c), mul(a, s)), other + i);
  }
  for (; i < pairs; ++i) {
    const float a = head[i];
    const float b = other[i];
    head[i] = a * cos[i] - b * sin[i];
    other[i] = b * cos[i] + a * sin[i];
  }
}

template <int N>
HWY_INLINE void project_columns(const float* x, const SmallMatrix& matrix, int column, float* out) {
  Lanes sums[N];
  for (int n = 0; n < N; ++n) sums[n] = broadcast(0.0F);
  for (int i = 0; i < matrix.inputs; ++i) {
    const Lanes value = broadcast(x[i]);
    const float* row = matrix.at + static_cast<std::ptrdiff_t>(i) * matrix.stride + column;
    for (int n = 0; n < N; ++n) sums[n] = fma(value, load(row + n * kLanes), sums[n]);
  }
  for (int n = 0; n < N; ++n) {
    const int first = column + n * kLanes;
    store_some(sums[n], out + first, matrix.outputs - first);
  }
}

void project(const float* x, const SmallMatrix& matrix, float* out) {
  constexpr int kAtOnce = kParts == 1 ? 4 : 2;
  int column = 0;
  for (; column + kAtOnce * kLanes <= matrix.outputs; column += kAtOnce * kLanes) {
    project_columns<kAtOnce>(x, matrix, column, out);
  }
  for (; column < matrix.outputs; column += kLanes) project_columns<1>(x, matrix, column, out);
}

RowKernels row_table() {
  RowKernels table;
  table.rms_norm = &rms_norm;
  table.layer_norm = &layer_norm;
  table.swiglu = &swiglu;
  table.activate = &activate;
  table.add = &add_row;
  table.add_scaled = &add_scaled_row;
  table.rotate = &rotate;
  table.quantize = &quantize;
  table.quantize_groups = &quantize_groups;
  table.project = &project;
  table.swiglu_oai = &swiglu_oai;
  return table;
}

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/targets.h"

namespace kvasir::cpu {

RowKernels row_kernels(Isa isa) { KVASIR_CHOOSE(isa, row_table); }

}  // namespace kvasir::cpu
#endif
