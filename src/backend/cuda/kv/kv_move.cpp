#include <algorithm>
#include <vector>

#include "backend/cuda/kv/kv_write.h"
#include "backend/cuda/runtime/staging.h"

namespace kvasir::cuda {

MovedRows send_moves(const KvView& view, const BlockId* blocks, std::span<const RowMove> moves, Staging& staging) {
  std::int32_t last = 0;
  for (const RowMove& move : moves) last = std::max({last, move.from, move.to});
  std::vector<RowMove> sorted(moves.begin(), moves.end());
  std::ranges::stable_sort(sorted, {}, &RowMove::head);
  std::vector<int> ends(static_cast<size_t>(view.layout.shape.heads));
  for (int head = 0; head < view.layout.shape.heads; ++head) {
    ends[static_cast<size_t>(head)] =
        static_cast<int>(std::ranges::upper_bound(sorted, head, {}, &RowMove::head) - sorted.begin());
  }
  const std::span table(blocks, static_cast<size_t>(last / view.layout.block_tokens) + 1);
  return {view, staging.send(table), staging.send(std::span<const RowMove>(sorted)),
          staging.send(std::span<const int>(ends))};
}

}  // namespace kvasir::cuda
