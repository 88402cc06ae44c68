// A model's logits for a whole text, without an engine.
#pragma once

#include <span>
#include <vector>

#include "backend/kv_storage.h"
#include "kv/cache.h"
#include "model/model.h"

namespace kvasir::testing {

// All tokens in one batch, logits for every row: [tokens][vocab].
inline std::vector<float> forward(Model& model, Backend& backend, const std::vector<TokenId>& tokens,
                                  const KvPolicy& policy = uniform_policy(KvFormat::kF32)) {
  const auto length = static_cast<Position>(tokens.size());
  const std::vector<KvGroup> groups = kv_groups(model.config(), policy);
  CHECK(groups.size() == 1);
  KvStorage storage(backend, {blocks_for(length, 16), make_layout(groups[0], 16).block_bytes()}, 16);
  storage.set_group(0, groups[0]);
  const std::vector<BlockId> table = in_order(blocks_for(length, 16));
  Batch batch;
  batch.tokens = tokens;
  for (int i = 0; i < length; ++i) {
    batch.positions.push_back(i);
    batch.logit_rows.push_back(i);
  }
  batch.sequences = {{{table.data(), 0, 0, static_cast<int>(length)}}};
  const Matrix logits = model.forward(batch, storage);
  std::vector<float> out(static_cast<size_t>(logits.rows) * static_cast<size_t>(logits.cols));
  backend.download(std::as_writable_bytes(std::span(out)), reinterpret_cast<const std::byte*>(logits.data));
  return out;
}

}  // namespace kvasir::testing
