#include "backend/lower.h"

namespace kvasir {

void lower(const AddNormOp& op, Backend& to) {
  to.run(AddOp{op.x, op.y});
  to.run(NormOp{op.x, op.rule, op.out});
}

void lower(const GatedMatmulOp& op, Backend& to) {
  to.run(SwigluOp{op.gate, op.up, op.gate});
  to.run(MatmulOp{op.weight, op.gate, op.bias, op.out});
}

void lower(const NormMatmulOp& op, Backend& to) {
  to.run(AddNormOp{op.rows.x, op.rows.y, op.rows.norm, op.rows.normed});
  to.run(MatmulOp{op.weight, op.rows.normed, op.bias, op.out});
}

void lower(const FeedForwardOp& op, Backend& to) {
  to.run(NormMatmulOp{op.rows, op.mlp.gate_up, op.mlp.gate_up_bias, op.gate_up});
  const int ffn = op.mlp.down->inputs();
  to.run(
      GatedMatmulOp{op.mlp.down, op.gate_up.columns(0, ffn), op.gate_up.columns(ffn, ffn), op.mlp.down_bias, op.out});
}

void lower(const RopeKvWriteOp& op, Backend& to) {
  to.run(RopeOp{op.rows.q, op.rows.heads, op.rows.table});
  to.run(RopeOp{op.rows.k, op.rows.kv_heads, op.rows.table});
  to.run(KvWriteOp{op.rows.k, op.rows.v, op.view, op.sequences});
}

}  // namespace kvasir
