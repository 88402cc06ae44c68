// The bytes of the cache: one arena of blocks a group, and the copies between them. Knows neither prefixes nor
// policy.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/buffer.h"
#include "layout/kv_layout.h"
#include "layout/kv_view.h"

namespace kvasir {

class KvStorage {
 public:
  struct GroupSpec {
    KvGroup group;
    std::int64_t blocks = 0;
  };

  // The backend outlives the storage.
  KvStorage(Backend& backend, std::span<const GroupSpec> groups, int block_tokens);

  size_t groups() const { return arenas_.size(); }
  const KvLayout& layout(size_t group) const { return arenas_[group].layout; }
  std::int64_t blocks(size_t group) const { return arenas_[group].blocks; }
  size_t bytes() const;  // of all arenas, exactly what was asked of the backend

  // How kernels see one of the model's layers, and which group's block table goes with it.
  KvView view(int model_layer) const;
  size_t group_of(int model_layer) const { return places_[static_cast<size_t>(model_layer)].group; }

  void copy_block(size_t group, BlockId from, BlockId to);

  // A block's bytes to the host and back; both of layout(group).block_bytes().
  void read_block(size_t group, BlockId block, std::span<std::byte> to) const;
  void write_block(size_t group, BlockId block, std::span<const std::byte> from);

 private:
  struct Arena {
    KvLayout layout;
    Retention retention;
    std::int64_t blocks = 0;
    Buffer memory;
  };
  struct Place {
    size_t group = 0;
    int layer = 0;  // inside the group
  };

  std::byte* at(size_t group, BlockId block) const;

  Backend& backend_;
  std::vector<Arena> arenas_;
  std::vector<Place> places_;  // by the model's layer
};

}  // namespace kvasir
