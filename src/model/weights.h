// A model's tensors by Hugging Face's names, from one file or many, safetensors or GGUF, each checked against the
// shape the config calls for.
#pragma once

#include <filesystem>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mmap_file.h"
#include "model/tensor_source.h"
#include "model/tensors.h"

namespace kvasir {

class Weights final : public TensorSource {
 public:
  // Opens model.safetensors, the shards that model.safetensors.index.json lists, or GGUF (see find_gguf). Throws
  // Error.
  // `tensors`: what the model's are called (tensors.h).
  Weights(const std::filesystem::path& path, std::vector<TensorSpec> tensors);

  // [rows][cols]; a vector is one row. Rows are in Hugging Face's order, whatever the file's. Valid until
  // done_with. Throws Error when it is missing, has another shape, or a type we do not compute.
  HostWeight matrix(std::string_view name, int rows, int cols) const override;

  Key256 fingerprint() const override;  // reads all bytes once
  void done_with(const HostWeight& weight) const override;
  std::uint64_t bytes() const override;
  bool is_gguf() const override { return gguf_; }

 private:
  struct Tensor {
    std::string type;                  // as the file spells it
    std::optional<DType> dtype;        // none: not a type of weights
    std::vector<std::int64_t> shape;   // row-major
    std::span<const std::byte> bytes;  // inside the file
  };
  struct File {
    MmapFile mapped;
    std::map<std::string, Tensor, std::less<>> tensors;  // by the names the file has
  };

  const TensorSpec* spec_of(std::string_view name) const;
  const Tensor* find(std::string_view name) const;
  void open_safetensors(const std::filesystem::path& path);
  void open_shards(const std::filesystem::path& folder, const std::filesystem::path& index);
  void open_gguf(const std::filesystem::path& path);
  std::optional<Tensor> expert_of(const Tensor& all, std::string_view name) const;
  std::span<const std::byte> in_our_order(const Tensor& tensor, std::string_view name) const;

  std::string where_;
  std::vector<File> files_;
  std::vector<TensorSpec> specs_;  // by their names, ascending
  bool gguf_ = false;
  // Copies of weights whose rows had to be moved; one lives from matrix() to done_with().
  mutable std::list<std::vector<std::byte>> moved_;
};

}  // namespace kvasir
