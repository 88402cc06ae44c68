// A model's logits for a whole text, without an engine.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "backend/kv_storage.h"
#include "kv/cache.h"
#include "model/model.h"

namespace kvasir::testing {

// Logits for every row: [tokens][vocab]. All tokens in one batch, or so many at a time. Of an encoder-decoder they
// are an answer to themselves.
inline std::vector<float> forward(Model& model, Backend& backend, const std::vector<TokenId>& tokens,
                                  const KvPolicy& policy = uniform_policy(KvFormat::kF32), Position chunk = 0) {
  const auto length = static_cast<Position>(tokens.size());
  const std::vector<KvGroup> groups = kv_groups(model.config(), policy);
  const std::int64_t blocks = blocks_for(length, 16);
  std::int64_t page_bytes = 0;  // a block of any group, which has pages of its own
  for (const KvGroup& group : groups) page_bytes = std::max(page_bytes, block_bytes_of(group, 16));
  KvStorage storage(backend, {blocks * std::ssize(groups), page_bytes}, 16);
  std::vector<std::vector<BlockId>> tables;
  for (size_t group = 0; group < groups.size(); ++group) {
    storage.set_group(group, groups[group]);
    const std::int64_t per_page = page_bytes / block_bytes_of(groups[group], 16);
    std::vector<BlockId>& table = tables.emplace_back();
    for (std::int64_t block = 0; block < blocks; ++block) {
      table.push_back(static_cast<BlockId>((static_cast<std::int64_t>(group) * blocks + block) * per_page));
    }
  }
  std::vector<float> out;
  for (Position first = 0, rows = 0; first < length; first += rows) {
    rows = std::min(chunk > 0 ? chunk : length, length - first);
    Batch batch;
    for (Position i = 0; i < rows; ++i) {
      batch.tokens.push_back(tokens[static_cast<size_t>(first + i)]);
      batch.positions.push_back(first + i);
      batch.logit_rows.push_back(static_cast<int>(i));
    }
    Batch::Source source{tokens, {}};
    for (size_t group = 0; group < groups.size(); ++group) {
      SequenceView view{tables[group].data(), first, 0, static_cast<int>(rows)};
      view.block_count = groups[group].keeps_state() ? 1 : 0;
      if (!groups[group].keeps_state() && is_of_source(model.config(), groups[group])) {
        view.start = length - rows;
        view.keys = length;
        source.into.emplace_back(group, tables[group].data());
      }
      batch.sequences.push_back({view});
    }
    if (first == 0 && !source.into.empty()) batch.sources.push_back(std::move(source));
    const Matrix logits = model.forward(batch, storage);
    const size_t before = out.size();
    out.resize(before + static_cast<size_t>(logits.rows) * static_cast<size_t>(logits.cols));
    backend.download(std::as_writable_bytes(std::span(out).subspan(before)),
                     reinterpret_cast<const std::byte*>(logits.data));
  }
  return out;
}

}  // namespace kvasir::testing
