#include "backend/kv_storage.h"

#include "base/check.h"

namespace kvasir {

KvStorage::KvStorage(Backend& backend, std::span<const GroupSpec> groups, int block_tokens) : backend_(backend) {
  for (const GroupSpec& spec : groups) {
    Arena arena;
    arena.layout = make_layout(spec.group, block_tokens);
    arena.retention = spec.group.retention;
    arena.blocks = spec.blocks;
    arena.memory = backend.allocate(static_cast<size_t>(arena.layout.block_bytes() * spec.blocks));
    for (size_t i = 0; i < spec.group.layers.size(); ++i) {
      const auto layer = static_cast<size_t>(spec.group.layers[i]);
      if (places_.size() <= layer) places_.resize(layer + 1);
      places_[layer] = {arenas_.size(), static_cast<int>(i)};
    }
    arenas_.push_back(std::move(arena));
  }
}

size_t KvStorage::bytes() const {
  size_t sum = 0;
  for (const Arena& arena : arenas_) sum += static_cast<size_t>(arena.layout.block_bytes() * arena.blocks);
  return sum;
}

KvView KvStorage::view(int model_layer) const {
  const Place& place = places_[static_cast<size_t>(model_layer)];
  const Arena& arena = arenas_[place.group];
  return {arena.memory.as<std::byte>(), arena.layout, arena.retention, place.layer};
}

std::byte* KvStorage::at(size_t group, BlockId block) const {
  const Arena& arena = arenas_[group];
  CHECK(block >= 0 && block < arena.blocks);
  return arena.memory.as<std::byte>() + static_cast<size_t>(block * arena.layout.block_bytes());
}

void KvStorage::copy_block(size_t group, BlockId from, BlockId to) {
  backend_.copy(at(group, to), at(group, from), static_cast<size_t>(layout(group).block_bytes()));
}

void KvStorage::read_block(size_t group, BlockId block, std::span<std::byte> to) const {
  CHECK(to.size() == static_cast<size_t>(layout(group).block_bytes()));
  backend_.download(to, at(group, block));
}

void KvStorage::write_block(size_t group, BlockId block, std::span<const std::byte> from) {
  CHECK(from.size() == static_cast<size_t>(layout(group).block_bytes()));
  backend_.upload(at(group, block), from);
}

}  // namespace kvasir
