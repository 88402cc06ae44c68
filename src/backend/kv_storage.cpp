#include "backend/kv_storage.h"

#include "base/check.h"

namespace kvasir {

KvStorage::KvStorage(Backend& backend, Pages pages, int block_tokens)
    : backend_(backend),
      pages_(pages),
      block_tokens_(block_tokens),
      memory_(backend.allocate(static_cast<size_t>(pages.count * pages.bytes))) {}

void KvStorage::set_group(size_t number, const KvGroup& group, Layers layers) {
  if (groups_.size() <= number) groups_.resize(number + 1);
  Group made;
  if (!group.keeps_state()) made.layout = make_layout(group, block_tokens_);
  made.state = group.state;
  made.state_format = group.state_format;
  made.only_kept = group.only_kept();
  made.layers = static_cast<int>(group.layers.size());
  made.block_bytes = block_bytes_of(group, block_tokens_);
  if (layers == Layers::kInTurn) {
    made.layout.layers = 1;
    made.block_bytes = made.layout.block_bytes();
  }
  made.retention = group.retention;
  made.recent_override = group.recent_override;
  made.sink_query_position = group.sink_query_position;
  made.first_head = group.first_head;
  made.per_page = static_cast<std::int32_t>(pages_.bytes / made.block_bytes);
  CHECK(made.per_page > 0);
  for (size_t i = 0; i < group.layers.size(); ++i) {
    made.places.resize(static_cast<size_t>(group.layers[i]) + 1, -1);
    made.places.back() = layers == Layers::kInTurn ? 0 : static_cast<int>(i);
  }
  groups_[number] = std::move(made);
  layout_generation_ = std::make_shared<int>();
}

size_t KvStorage::bytes() const { return static_cast<size_t>(pages_.count * pages_.bytes); }

bool KvStorage::caches(size_t group, int model_layer) const {
  const std::vector<int>& places = groups_[group].places;
  return static_cast<size_t>(model_layer) < places.size() && places[static_cast<size_t>(model_layer)] >= 0;
}

KvView KvStorage::view(size_t number, int model_layer) const {
  CHECK(caches(number, model_layer) && !keeps_state(number));
  const Group& group = groups_[number];
  KvView view{memory_.as<std::byte>(), group.layout, group.retention, group.places[static_cast<size_t>(model_layer)]};
  view.recent_override = group.recent_override;
  view.sink_query_position = group.sink_query_position;
  view.first_head = group.first_head;
  // Where no page has a rest, blocks lie as if there were no pages.
  if (group.per_page * group.layout.block_bytes() != pages_.bytes) {
    view.page_bytes = pages_.bytes;
    view.per_page = group.per_page;
  }
  return view;
}

StateView KvStorage::state_view(size_t number, int model_layer) const {
  CHECK(caches(number, model_layer) && writes_state(number));
  const Group& group = groups_[number];
  return {memory_.as<std::byte>(), group.state, group.layers, group.places[static_cast<size_t>(model_layer)],
          group.per_page,          pages_.bytes};
}

std::byte* KvStorage::at(size_t number, BlockId block) const {
  const Group& group = groups_[number];
  CHECK(block >= 0 && block / group.per_page < pages_.count);
  return memory_.as<std::byte>() + block / group.per_page * pages_.bytes + block % group.per_page * group.block_bytes;
}

void KvStorage::copy_block(size_t from_group, BlockId from, size_t to_group, BlockId to) {
  if (from_group == to_group) {
    backend_.run(CopyOp{at(to_group, to), at(from_group, from), static_cast<size_t>(block_bytes(to_group))});
    return;
  }
  const Group& kept = groups_[groups_[to_group].only_kept ? to_group : from_group];
  const StateCodes codes{kept.state_format, kept.state, kept.layers};
  if (groups_[to_group].only_kept) {
    backend_.run(StateEncodeOp{codes, reinterpret_cast<const float*>(at(from_group, from)), at(to_group, to)});
  } else {
    backend_.run(StateDecodeOp{codes, at(from_group, from), reinterpret_cast<float*>(at(to_group, to))});
  }
}

void KvStorage::move_rows(size_t number, const BlockId* blocks, std::span<const RowMove> moves) {
  for (int layer = 0; layer < static_cast<int>(groups_[number].places.size()); ++layer) {
    if (caches(number, layer)) backend_.run(KvMoveOp{view(number, layer), blocks, moves});
  }
}

HostCopy KvStorage::saved_at(std::byte* host, size_t group, BlockId block) const {
  return {host, at(group, block), static_cast<size_t>(block_bytes(group))};
}

void KvStorage::read_block(size_t group, BlockId block, std::span<std::byte> to) const {
  CHECK(to.size() == static_cast<size_t>(block_bytes(group)));
  backend_.download(to, at(group, block));
}

void KvStorage::write_block(size_t group, BlockId block, std::span<const std::byte> from) {
  CHECK(from.size() == static_cast<size_t>(block_bytes(group)));
  backend_.upload(at(group, block), from);
}

}  // namespace kvasir
