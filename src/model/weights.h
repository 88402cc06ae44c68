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
#include "model/quantized/quantized_tensors.h"
#include "model/tensor_source.h"
#include "model/tensors.h"

namespace kvasir {

class Weights final : public TensorSource {
 public:
  // Opens model.safetensors, the shards that model.safetensors.index.json lists, or GGUF (see find_gguf). Throws
  // Error, also for a quantization_config that is not supported.
  // `tensors`: what the model's are called (tensors.h).
  Weights(const std::filesystem::path& path, std::vector<TensorSpec> tensors);

  // [rows][cols]; a vector is one row. Rows are in Hugging Face's order, whatever the file's. Valid until
  // done_with. Throws Error when it is missing, has another shape, or a type we do not compute. A matrix that a
  // folder has quantized is in a quantized type, whatever tensors it comes from: quantized/quantized_tensors.h.
  HostWeight matrix(std::string_view name, int rows, int cols) const override;

  bool has(std::string_view name) const;  // whether the files have it, or what it is made of
  Key256 fingerprint() const override;    // reads all bytes once
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
    std::map<std::string, Tensor, std::less<>> tensors;  // by the names the file has, without "model." and the like
  };
  struct Shape {  // of what is asked for
    bool vector = false;
    int rows = 0;  // of a vector: numbers
    int cols = 0;  // of a vector: 1
  };

  const TensorSpec* spec_of(std::string_view name) const;
  FilePlace place_of(const TensorSpec& spec) const;
  const Tensor* find(const std::string& stored) const;
  void open_safetensors(const std::filesystem::path& path);
  void open_shards(const std::filesystem::path& folder, const std::filesystem::path& index);
  void open_gguf(const std::filesystem::path& path);
  std::optional<Tensor> quantized_tensor(const AskedMatrix& asked) const;
  Tensor plain_tensor(const TensorSpec& spec, const FilePlace& place, const Shape& shape) const;
  bool forget_copy(std::span<const std::byte> bytes) const;  // whether it is one
  static Tensor expert_of(const Tensor& all, const TensorSpec& spec);
  Tensor turned(const Tensor& tensor) const;
  std::span<const std::byte> in_our_order(const Tensor& tensor, const TensorSpec& spec, const RowSlice& slice,
                                          const Shape& shape) const;

  std::string where_;
  std::vector<File> files_;
  std::vector<TensorSpec> specs_;  // by their names, ascending
  bool gguf_ = false;
  QuantizedTensors quantized_;
  // Copies of weights whose rows had to be moved; one lives from matrix() to done_with().
  mutable std::list<std::vector<std::byte>> moved_;
};

}  // namespace kvasir
