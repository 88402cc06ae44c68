#include "layout/kv_layout.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

void check_fits(KvFormat format, int dim) {
  if ((!is_packed(format) && !is_pruned(format)) || dim <= kMaxPackedDim) return;
  fail_usage(fmt::format("heads of {} numbers cannot be kept as {}: {} is the most", dim, format_name(format),
                         kMaxPackedDim),
             "--kv-dtype", "use f16, bf16 or f32");
}

// Whatever lies behind a part of a head may be float32.
std::int64_t aligned(std::int64_t bytes) { return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment; }

// Whether a number of the format is a byte, and rows have scales.
bool is_byte(KvFormat format) { return has_scale(format) && v_code_bytes(format, 64) == 64; }

}  // namespace

KvLayout make_layout(const KvGroup& group, int block_tokens) {
  CHECK(block_tokens > 0 && !group.layers.empty() && !group.keeps_state());
  CHECK(group.shape.heads > 0 && group.shape.k_dim > 0 && group.shape.v_dim > 0);
  const bool has_v = group.shape.has_v();
  CHECK(has_v || (group.k_format == group.v_format && group.shape.v_in_k + group.shape.v_dim <= group.shape.k_dim));
  KvLayout layout;
  layout.block_tokens = block_tokens;
  layout.layers = static_cast<int>(group.layers.size());
  layout.shape = group.shape;
  layout.k_format = group.k_format;
  layout.v_format = group.v_format;
  check_fits(group.k_format, group.shape.k_dim);
  check_fits(group.v_format, group.shape.v_dim);
  layout.k_head_bytes = aligned(k_code_bytes(group.k_format, group.shape.k_dim) * block_tokens);
  layout.v_head_bytes = has_v ? aligned(v_code_bytes(group.v_format, group.shape.v_dim) * block_tokens) : 0;
  layout.k_scale_bytes = has_scale(group.k_format) ? aligned(kScaleBytes * block_tokens) : 0;
  layout.v_scale_bytes = has_v && has_scale(group.v_format) ? aligned(kScaleBytes * block_tokens) : 0;
  const bool apart = is_byte(group.k_format) && is_byte(group.v_format);
  layout.head_step = apart ? layout.code_bytes() : layout.head_bytes();
  layout.scale_from = apart ? layout.code_bytes() * group.shape.heads : layout.code_bytes();
  layout.scale_step = apart ? layout.scale_bytes() : layout.head_bytes();
  return layout;
}

std::int64_t block_bytes_of(const KvGroup& group, int block_tokens) {
  if (!group.keeps_state()) return make_layout(group, block_tokens).block_bytes();
  return state_bytes(group.state, static_cast<int>(group.layers.size()),
                     group.only_kept() ? group.state_format : StateFormat::kF32);
}

std::int64_t bytes_per_token(const KvGroup& group) {
  if (group.keeps_state()) return 0;
  return make_layout(group, kPartAlignment).block_bytes() / kPartAlignment;  // such a block has no padding
}

}  // namespace kvasir
