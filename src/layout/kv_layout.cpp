#include "layout/kv_layout.h"

#include "base/check.h"
#include "layout/codec.h"

namespace kvasir {

KvLayout make_layout(const KvGroup& group, int block_tokens) {
  CHECK(block_tokens > 0 && !group.layers.empty());
  CHECK(group.shape.heads > 0 && group.shape.k_dim > 0 && group.shape.v_dim > 0);
  KvLayout layout;
  layout.block_tokens = block_tokens;
  layout.layers = static_cast<int>(group.layers.size());
  layout.shape = group.shape;
  layout.k_format = group.k_format;
  layout.v_format = group.v_format;
  const auto k_bytes = static_cast<std::int64_t>(bytes_per_element(group.k_format));
  const auto v_bytes = static_cast<std::int64_t>(bytes_per_element(group.v_format));
  layout.k_head_bytes = k_bytes * group.shape.k_dim * block_tokens;
  layout.v_head_bytes = v_bytes * group.shape.v_dim * block_tokens;
  return layout;
}

std::int64_t bytes_per_token(const KvGroup& group) { return make_layout(group, 1).block_bytes(); }

std::int64_t blocks_for(std::int64_t tokens, int block_tokens) { return (tokens + block_tokens - 1) / block_tokens; }

}  // namespace kvasir
