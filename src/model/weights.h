// A model's tensors by name, from one file or many, each checked against the shape the config calls for.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "backend/tensor.h"
#include "base/hash.h"
#include "model/safetensors.h"

namespace kvasir {

class Weights {
 public:
  // Opens model.safetensors, or the shards that model.safetensors.index.json lists. Throws Error.
  explicit Weights(const std::filesystem::path& folder);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  // [rows][cols]; a vector is one row. Throws Error when it is missing, has another shape, or a type we do not
  // compute.
  HostWeight matrix(std::string_view name, int rows, int cols) const;
  HostWeight vector(std::string_view name, int size) const { return matrix(name, 1, size); }

  // What the weights are, to the last bit: part of every cached block's name. Reads all bytes once.
  Key256 fingerprint() const;
  // The pages of this weight may be dropped: it has been packed.
  void done_with(const HostWeight& weight) const;
  std::uint64_t bytes() const;

 private:
  const StoredTensor* find(std::string_view name) const;
  void open_shards(const std::filesystem::path& index);

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
};

}  // namespace kvasir
