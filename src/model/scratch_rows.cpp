#include "model/scratch_rows.h"

#include <algorithm>
#include <utility>

namespace kvasir {

struct ScratchRows::Plan {
  std::vector<KvGroup> groups;
  std::vector<std::int64_t> block_bytes;  // by group
  KvStorage::Pages pages;
  std::int64_t blocks = 0;  // of each group
  KvStorage::Layers layers;
};

// A layer that reads another's keys needs them to be still there.
ScratchRows::Plan ScratchRows::plan_of(const ModelSpec& spec, std::int64_t tokens, KvStorage::Layers layers) {
  const auto own = [](const LayerSpec& layer) { return layer.attention.owns_kv(); };
  if (!std::ranges::all_of(spec.layers, own)) layers = KvStorage::Layers::kApart;
  Plan plan{scratch_groups(spec), {}, {}, blocks_for(tokens, kBlockTokens), layers};
  for (const KvGroup& group : plan.groups) {
    KvLayout layout = make_layout(group, kBlockTokens);
    if (layers == KvStorage::Layers::kInTurn) layout.layers = 1;
    plan.block_bytes.push_back(layout.block_bytes());
    plan.pages.bytes = std::max(plan.pages.bytes, layout.block_bytes());
  }
  plan.pages.count = plan.blocks * std::ssize(plan.groups);
  return plan;
}

ScratchRows::ScratchRows(Backend& backend, const ModelSpec& spec, std::int64_t tokens, KvStorage::Layers layers)
    : ScratchRows(backend, plan_of(spec, tokens, layers)) {}

ScratchRows::ScratchRows(Backend& backend, Plan plan) : storage_(backend, plan.pages, kBlockTokens) {
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    storage_.set_group(group, plan.groups[group], plan.layers);
    const std::int64_t per_page = plan.pages.bytes / plan.block_bytes[group];
    std::vector<BlockId>& table = tables_.emplace_back();
    for (std::int64_t block = 0; block < plan.blocks; ++block) {
      table.push_back(static_cast<BlockId>((static_cast<std::int64_t>(group) * plan.blocks + block) * per_page));
    }
  }
}

void ScratchRows::add(std::span<const TokenId> text, std::int64_t first, std::int64_t end, std::int64_t block,
                      Batch& batch) const {
  const int first_row = batch.rows();
  for (std::int64_t i = first; i < end; ++i) {
    batch.tokens.push_back(text[static_cast<size_t>(i)]);
    batch.positions.push_back(i);
  }
  batch.sequences.resize(tables_.size());
  for (size_t group = 0; group < tables_.size(); ++group) {
    SequenceView view{tables_[group].data() + block, first, first_row, static_cast<int>(end - first)};
    view.keys = end;
    batch.sequences[group].push_back(view);
  }
}

size_t texts_that_fit(std::span<const std::span<const TokenId>> texts, std::int64_t rows) {
  const std::int64_t most = blocks_for(rows, ScratchRows::kBlockTokens);
  std::int64_t taken = 0;
  std::int64_t blocks = 0;
  size_t count = 0;
  for (; count < texts.size(); ++count) {
    taken += std::ssize(texts[count]);
    blocks += blocks_for(std::ssize(texts[count]), ScratchRows::kBlockTokens);
    if (count > 0 && (taken > rows || blocks > most)) break;
  }
  return count;
}

}  // namespace kvasir
