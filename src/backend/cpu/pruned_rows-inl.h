// Rows of pruned formats (codec_top.h) as rows of floats, zeros where nothing was kept. Included once per target by
// foreach_target. Exact: what is computed from them has the bits it would have over a cache in f32 that holds them.

#if defined(KVASIR_PRUNED_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_PRUNED_ROWS_INL_H_
#undef KVASIR_PRUNED_ROWS_INL_H_
#else
#define KVASIR_PRUNED_ROWS_INL_H_
#endif

#include <bit>

#include "backend/cpu/attention_split.h"
#include "backend/cpu/lanes-inl.h"
#include "layout/codec_top.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::cpu::HWY_NAMESPACE {

// Puts the kept numbers of a row `step` floats apart, into zeros. Of a row that was never written it may be any of
// its bytes, and no others: its mask may have any number of bits.
template <class Codec>
void put_kept(const std::byte* row, int dim, float* to, int step) {
  const int kept = Codec::kept(dim);
  HWY_ALIGN hwy::float16_t narrow[kLanes];
  HWY_ALIGN float wide[kLanes];
  int taken = 0;
  for (int first = 0; first < dim; first += 16) {
    std::uint16_t mask = 0;
    std::memcpy(&mask, row + first / 8, sizeof mask);
    for (unsigned rest = mask; rest != 0 && taken < kept; rest &= rest - 1, ++taken) {
      if (taken % kLanes == 0) {
        const int count = std::min(kLanes, kept - taken);
        std::memset(static_cast<void*>(narrow), 0, sizeof narrow);
        std::memcpy(static_cast<void*>(narrow), row + Codec::mask_bytes(dim) + 2 * taken,
                    2 * static_cast<size_t>(count));
        store(load(narrow), wide);
      }
      const int d = first + std::countr_zero(rest);
      if (d < dim) to[d * step] = wide[taken % kLanes];
    }
  }
}

// The split's keys as tiles of 16, [k_dim][16] each.
template <class Codec>
void expand_keys(const AttendTask& task, const SplitRange& range, float* to) {
  const int dim = task.view.layout.shape.k_dim;
  const int tiles = (range.tokens() + kLanes - 1) / kLanes;
  std::memset(to, 0, sizeof(float) * static_cast<size_t>(tiles * kLanes) * static_cast<size_t>(dim));
  for (int i = 0; i < range.tokens(); ++i) {
    const SlotRun at = run_at(task, range.begin + i, 1);
    if (at.block == kNoBlock) continue;
    put_kept<Codec>(task.view.k_head(at.block, task.kv_head) + at.slot * Codec::row_bytes(dim), dim,
                    to + i / kLanes * kLanes * dim + i % kLanes, kLanes);
  }
}

// The split's values, row by row.
template <class Codec>
void expand_values(const AttendTask& task, const SplitRange& range, float* to, int stride) {
  const int dim = task.view.layout.shape.v_dim;
  std::memset(to, 0, sizeof(float) * static_cast<size_t>(range.tokens()) * static_cast<size_t>(stride));
  for (int i = 0; i < range.tokens(); ++i, to += stride) {
    const SlotRun at = run_at(task, range.begin + i, 1);
    if (at.block == kNoBlock) continue;
    put_kept<Codec>(task.view.v_head(at.block, task.kv_head) + at.slot * Codec::row_bytes(dim), dim, to, 1);
  }
}

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
