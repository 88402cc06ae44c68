// A loaded model: tokens and a cache in, logits out. Knows nothing of scheduling or of why a row is in its batch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/kv_storage.h"
#include "base/hash.h"
#include "model/batch.h"
#include "model/kv_basis.h"
#include "model/spec.h"

namespace kvasir {

// Weights that a second decoder has from a first: an encoder's table of tokens, a draft head's table and head.
struct SharedWeights {
  std::shared_ptr<Weight> embedding;
  std::shared_ptr<Weight> head;  // where the second has none of its own; null: its table is its head
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelSpec& config() const = 0;
  virtual Key256 fingerprint() const = 0;           // names the weights, as they are multiplied, and the config
  virtual Key256 stored_fingerprint() const = 0;    // as they are stored: what a basis is made for
  virtual std::uint64_t weight_bytes() const = 0;   // as they lie in the backend's memory, without padding
  virtual int max_rows() const = 0;                 // of one batch
  virtual int longest_source() const { return 0; }  // of an encoder-decoder, in tokens; 0: it reads none
  virtual std::vector<std::span<const std::byte>> weight_memory() const = 0;  // where the matrices lie
  virtual SharedWeights shared_weights() const { return {}; }  // of a model that has no weights, none

  // For policies that keep K or V as shorter rows: the directions, and their name. REQUIRES: of this model's shape.
  virtual void use_basis(const KvBasis& basis) = 0;
  virtual const std::optional<Key256>& basis_name() const = 0;

  // Writes the rows' K and V into the cache and returns the logits of batch.logit_rows: [logit_rows][vocab], or,
  // where the batch asks for them, those rows: [logit_rows][hidden]. Valid until the next call, in the backend's
  // memory. The batch stays as it is until the backend was asked for something: logits, a draw. REQUIRES: a basis,
  // where the storage has groups of shorter rows; of an encoder, whole texts, whose rows are asked for.
  virtual Matrix forward(const Batch& batch, KvStorage& storage) = 0;
};

struct LoadOptions {
  int max_rows = 512;
  std::function<void(int done, int all)> progress;  // layers loaded; may be empty
  std::filesystem::path kv_basis{};                 // see find_kv_basis; empty: none
  WeightQuantization weights =
      WeightQuantization::kAsStored;  // of all matrices but an embedding that is nothing else
  std::int64_t context = 0;           // the longest text it will be asked for; 0: what it was trained for
};

// Loads a Hugging Face folder or a GGUF file. The backend outlives the model. Throws Error.
std::unique_ptr<Model> load_model(const std::filesystem::path& path, Backend& backend, const LoadOptions& options);

}  // namespace kvasir
