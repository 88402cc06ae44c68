// Keys and values that nobody keeps: a memory for as long as a step lasts, of texts that are read whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/kv_storage.h"
#include "model/batch.h"
#include "model/spec.h"

namespace kvasir {

// In float32, a memory of its own for each group of layers, and blocks in order.
class ScratchRows {
 public:
  static constexpr int kBlockTokens = kDefaultBlockTokens;

  // Of up to so many tokens, where each text begins with a block. kInTurn: for texts of one step, unless a layer
  // reads what another wrote. The backend outlives it.
  ScratchRows(Backend& backend, const ModelSpec& spec, std::int64_t tokens, KvStorage::Layers layers);

  // Adds rows first … end of a text whose blocks begin at `block`, behind those that the batch has.
  void add(std::span<const TokenId> text, std::int64_t first, std::int64_t end, std::int64_t block,
           Batch& batch) const;

  KvStorage& storage() { return storage_; }

 private:
  struct Plan;
  ScratchRows(Backend& backend, Plan plan);
  static Plan plan_of(const ModelSpec& spec, std::int64_t tokens, KvStorage::Layers layers);

  KvStorage storage_;
  std::vector<std::vector<BlockId>> tables_;  // by group
};

// How many of these, from the first on, a step of so many rows takes: at least one.
size_t texts_that_fit(std::span<const std::span<const TokenId>> texts, std::int64_t rows);

}  // namespace kvasir
