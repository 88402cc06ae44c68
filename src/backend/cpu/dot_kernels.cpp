#include "backend/cpu/dot_kernels.h"

#include <hwy/base.h>
#include <immintrin.h>

#include <utility>

// Only functions between the two lines use the instructions, and only those that ask for them may be called.
HWY_PUSH_ATTRIBUTES("avx,avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")

namespace kvasir::cpu {
namespace {

constexpr int kRowTile = 12;
constexpr int panels_for(int rows) { return rows <= 2 ? 8 : rows == 3 ? 6 : rows <= 6 ? 4 : rows <= 8 ? 3 : 2; }

__mmask16 valid(int columns) { return static_cast<__mmask16>(columns >= kLanes ? 0xffff : (1 << columns) - 1); }

template <int R, int P>
void bf16_tile(const MatmulTile& t) {
  __m512 sums[R][P];
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < P; ++p) {
      const float* out = t.out + r * t.out_stride + p * kLanes;
      sums[r][p] = t.resume ? _mm512_maskz_loadu_ps(valid(t.columns - p * kLanes), out) : _mm512_setzero_ps();
    }
  }
  const std::byte* weights = t.weights;
  const auto* x = reinterpret_cast<const int*>(t.x);
  for (int k = 0; k < t.inputs; k += 2, weights += kLanes * 4, x += t.x_stride) {
    __m512bh w[P];
    for (int p = 0; p < P; ++p) w[p] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(weights + p * t.panel_bytes));
    for (int r = 0; r < R; ++r) {
      const auto pair = reinterpret_cast<__m512bh>(_mm512_set1_epi32(x[r]));
      for (int p = 0; p < P; ++p) sums[r][p] = _mm512_dpbf16_ps(sums[r][p], pair, w[p]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < P; ++p) {
      _mm512_mask_storeu_ps(t.out + r * t.out_stride + p * kLanes, valid(t.columns - p * kLanes), sums[r][p]);
    }
  }
}

template <int... R>
void run_rows(const MatmulTile& t, std::integer_sequence<int, R...>) {
  using Run = void (*)(const MatmulTile&);
  static constexpr Run kOne[] = {&bf16_tile<R + 1, 1>...};
  static constexpr Run kMany[] = {&bf16_tile<R + 1, panels_for(R + 1)>...};
  (t.panels == 1 ? kOne : kMany)[t.rows - 1](t);
}

float multiply_add(std::int64_t rounds, float seed) {
  constexpr int kChains = 16;
  __m512 sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = _mm512_set1_ps(seed + static_cast<float>(c));
  const auto pair = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f003f00));
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_dpbf16_ps(sums[c], pair, pair);
  }
  float all = 0;
  for (int c = 0; c < kChains; ++c) all += _mm512_cvtss_f32(sums[c]);
  return all;
}

void tile(const MatmulTile& t) { run_rows(t, std::make_integer_sequence<int, kRowTile>()); }

}  // namespace
}  // namespace kvasir::cpu

HWY_POP_ATTRIBUTES

namespace kvasir::cpu {

MatmulKernel bf16_dot_kernel() {
  MatmulKernel kernel{&tile, RowForm::kBf16Pairs, kRowTile, {}};
  for (int rows = 1; rows <= kRowTile; ++rows) kernel.panels_at_once[rows] = panels_for(rows);
  return kernel;
}
float bf16_multiply_add(std::int64_t rounds, float seed) { return multiply_add(rounds, seed); }

}  // namespace kvasir::cpu
