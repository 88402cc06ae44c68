// The bytes of the cache: one memory cut into pages, in which the blocks of a group lie one after the other, and the
// copies between them. Which group has which page is the cache's affair: a block's number says where it lies. Knows
// neither prefixes nor policy.
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
  struct Pages {
    std::int64_t count = 0;
    std::int64_t bytes = 0;  // of one
  };

  enum class Layers : std::uint8_t {
    kApart,
    kInTurn,  // a step uses one layer after the other, and each overwrites what the last one wrote
  };

  // The backend outlives the storage.
  KvStorage(Backend& backend, Pages pages, int block_tokens);

  // Under the number that the cache gave it; a number may be given again. A block fits a page.
  void set_group(size_t number, const KvGroup& group, Layers layers = Layers::kApart);

  // Another one whenever a view may be another. Whoever keeps it will not meet its address a second time.
  std::shared_ptr<const void> layout_generation() const { return layout_generation_; }

  int block_tokens() const { return block_tokens_; }
  const KvLayout& layout(size_t group) const { return groups_[group].layout; }  // of rows
  std::int64_t block_bytes(size_t group) const { return groups_[group].block_bytes; }
  size_t bytes() const;  // exactly what was asked of the backend

  // How kernels see one of the model's layers, if the group caches it.
  std::int64_t sink_query_position(size_t group) const { return groups_[group].sink_query_position; }
  bool caches(size_t group, int model_layer) const;
  bool keeps_state(size_t group) const { return !groups_[group].state.none(); }
  bool writes_state(size_t group) const { return keeps_state(group) && !groups_[group].only_kept; }
  // What the states of the group are rounded to at each kStateStep-th token.
  StateFormat state_format(size_t group) const { return groups_[group].state_format; }
  KvView view(size_t group, int model_layer) const;           // REQUIRES: a group of rows
  StateView state_view(size_t group, int model_layer) const;  // REQUIRES: one of states that are written

  // Of two groups one has the states that the other keeps in a format of their own.
  void copy_block(size_t from_group, BlockId from, size_t to_group, BlockId to);
  // Rows of a sequence with these blocks change their places in all layers of the group, one move after the other.
  void move_rows(size_t group, const BlockId* blocks, std::span<const RowMove> moves);

  // Host memory for blocks that are saved, and the piece of it that one is saved to and restored from.
  Buffer allocate_on_host(size_t bytes) { return backend_.allocate_on_host(bytes); }
  HostCopy saved_at(std::byte* host, size_t group, BlockId block) const;
  void save(std::span<const HostCopy> blocks) { backend_.save(blocks); }
  void restore(std::span<const HostCopy> blocks) { backend_.restore(blocks); }
  void finish() { backend_.finish(); }

  // A block's bytes to the host and back; both of block_bytes(group).
  void read_block(size_t group, BlockId block, std::span<std::byte> to) const;
  void write_block(size_t group, BlockId block, std::span<const std::byte> from);

 private:
  struct Group {
    KvLayout layout;
    StateShape state;
    StateFormat state_format = StateFormat::kF32;
    bool only_kept = false;
    int layers = 0;
    std::int64_t block_bytes = 0;
    Retention retention;
    Retention recent_override;
    std::int64_t sink_query_position = 0;
    int first_head = 0;
    std::int32_t per_page = 0;
    std::vector<int> places;  // by the model's layer: which of the group's it is; -1: none
  };

  std::byte* at(size_t group, BlockId block) const;

  Backend& backend_;
  Pages pages_;
  int block_tokens_;
  Buffer memory_;
  std::vector<Group> groups_;
  std::shared_ptr<const void> layout_generation_ = std::make_shared<int>();
};

}  // namespace kvasir
