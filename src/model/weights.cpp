#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json_reader.h"
#include "model/gguf/gguf_model.h"
#include "model/safetensors.h"

namespace kvasir {
namespace {

constexpr JsonFileKind kIndexFile{size_t{16} << 20, "check the file, or download it again"};
constexpr const char* kMismatch = "check that the config and the weights belong together";

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::optional<DType> safetensors_type(std::string_view name) {
  if (name == "F32") return DType::kF32;
  if (name == "F16") return DType::kF16;
  if (name == "BF16") return DType::kBF16;
  return std::nullopt;
}

}  // namespace

Weights::Weights(const std::filesystem::path& path, std::vector<TensorSpec> tensors)
    : where_(path.string()), specs_(std::move(tensors)) {
  std::ranges::sort(specs_, {}, &TensorSpec::name);
  const std::filesystem::path single = path / "model.safetensors";
  const std::filesystem::path index = path / "model.safetensors.index.json";
  if (const auto gguf = find_gguf(path)) {
    open_gguf(*gguf);
  } else if (std::filesystem::exists(index)) {
    open_shards(path, index);
  } else if (std::filesystem::exists(single)) {
    open_safetensors(single);
  } else {
    fail_input("the folder has neither model.safetensors nor model.safetensors.index.json nor a .gguf file", where_,
               "give a folder with a Hugging Face model in safetensors format, or a .gguf file");
  }
}

void Weights::open_safetensors(const std::filesystem::path& path) {
  SafetensorsFile stored(path);
  File& file = files_.emplace_back(File{std::move(stored.file), {}});
  for (auto& [name, tensor] : stored.tensors) {
    const std::optional<DType> dtype = safetensors_type(tensor.dtype);
    file.tensors.emplace(name, Tensor{std::move(tensor.dtype), dtype, std::move(tensor.shape), tensor.bytes});
  }
}

void Weights::open_gguf(const std::filesystem::path& path) {
  GgufModel model(path);
  gguf_ = true;
  for (GgufFile& stored : std::move(model).take_files()) {
    File& file = files_.emplace_back(File{std::move(*stored.file), {}});
    for (auto& [name, tensor] : stored.content.tensors) {
      file.tensors.emplace(name,
                           Tensor{gguf_type_name(tensor.type), tensor.dtype, std::move(tensor.shape), tensor.bytes});
    }
  }
}

void Weights::open_shards(const std::filesystem::path& folder, const std::filesystem::path& index) {
  const MmapFile file(index);
  const JsonDocument document(file.text(), index.string(), kIndexFile);
  const JsonReader map = document.root().get("weight_map");
  std::set<std::string> names;
  for (const auto [tensor, shard] : map.members()) {
    const std::string_view name = shard.text();
    // A shard lies beside its index: a name that leads elsewhere is not one of ours.
    if (name.empty() || name.find('/') != std::string_view::npos || name == "..") {
      shard.fail(fmt::format("is '{}', which is not the name of a file beside the index", name));
    }
    names.emplace(name);
  }
  if (names.empty()) map.fail("names no file");
  for (const std::string& name : names) open_safetensors(folder / name);
}

const TensorSpec* Weights::spec_of(std::string_view name) const {
  const auto found = std::ranges::lower_bound(specs_, name, {}, &TensorSpec::name);
  return found == specs_.end() || found->name != name ? nullptr : &*found;
}

const Weights::Tensor* Weights::find(std::string_view name) const {
  const TensorSpec* spec = gguf_ ? spec_of(name) : nullptr;
  const std::string stored(spec == nullptr ? name : spec->gguf);
  for (const File& file : files_) {
    const auto found = file.tensors.find(stored);
    if (found != file.tensors.end()) return &found->second;
  }
  return nullptr;
}

// One expert's part of a tensor that a GGUF file has for all experts of a layer: [experts][rows][cols].
std::optional<Weights::Tensor> Weights::expert_of(const Tensor& all, std::string_view name) const {
  const TensorSpec* spec = gguf_ ? spec_of(name) : nullptr;
  if (spec == nullptr || spec->expert < 0 || all.shape.size() != 3 || all.shape[0] != spec->experts)
    return std::nullopt;
  const size_t bytes = all.bytes.size() / static_cast<size_t>(spec->experts);
  return Tensor{all.type,
                all.dtype,
                {all.shape[1], all.shape[2]},
                all.bytes.subspan(bytes * static_cast<size_t>(spec->expert), bytes)};
}

HostWeight Weights::matrix(std::string_view name, int rows, int cols) const {
  const Tensor* tensor = find(name);
  if (tensor == nullptr) fail_input(fmt::format("tensor '{}' is missing", name), where_, kMismatch);
  const std::optional<Tensor> expert = expert_of(*tensor, name);
  if (expert) tensor = &*expert;
  std::vector<std::int64_t> expected{rows, cols};
  if (tensor->shape.size() == 1 && rows == 1) expected = {cols};
  if (tensor->shape != expected) {
    fail_input(fmt::format("tensor '{}' is {}, and the config calls for {}", name, shape_text(tensor->shape),
                           shape_text(expected)),
               where_, kMismatch);
  }
  if (!tensor->dtype) {
    fail_input(fmt::format("tensor '{}' has type {}", name, tensor->type), where_,
               "this type is not computed: convert the model to another, such as F32, F16, BF16 or q8_0");
  }
  return {in_our_order(*tensor, name), *tensor->dtype, rows, cols};
}

// Of rows that a GGUF file interleaves: the rows (of a bias: the numbers) go back to where Hugging Face has them.
// Whole rows move, so their type does not matter.
std::span<const std::byte> Weights::in_our_order(const Tensor& tensor, std::string_view name) const {
  const TensorSpec* spec = gguf_ ? spec_of(name) : nullptr;
  if (spec == nullptr || spec->gguf_rows == GgufRows::kAsStored) return tensor.bytes;
  const auto rows = static_cast<int>(tensor.shape[0]);
  const bool bias = tensor.shape.size() == 1;
  if (rows % spec->head_dim != 0 || (bias && is_quantized(*tensor.dtype))) {
    fail_input(fmt::format("tensor '{}' is {} of type {}, which has no whole heads", name, shape_text(tensor.shape),
                           tensor.type),
               where_, kMismatch);
  }
  const size_t row = row_bytes(*tensor.dtype, bias ? 1 : tensor.shape[1]);
  std::vector<std::byte>& out = moved_.emplace_back(tensor.bytes.size());
  const InterleavedRows order{spec->head_dim};
  for (int r = 0; r < rows; ++r) {
    std::memcpy(out.data() + static_cast<size_t>(r) * row,
                tensor.bytes.data() + static_cast<size_t>(order.gguf_row(r)) * row, row);
  }
  return out;
}

Key256 Weights::fingerprint() const {
  Key256 sum;
  for (const File& file : files_) {
    for (const auto& [name, tensor] : file.tensors) {
      const std::string shape = shape_text(tensor.shape);
      const std::array<std::uint8_t, 16> content = content_hash(tensor.bytes);
      const std::array<std::string_view, 4> parts{
          name, tensor.type, shape, std::string_view(reinterpret_cast<const char*>(content.data()), content.size())};
      sum = keyed_hash(sum, parts);
    }
  }
  return sum;
}

void Weights::done_with(const HostWeight& weight) const {
  if (moved_.remove_if([&](const auto& copy) { return copy.data() == weight.bytes.data(); }) > 0) return;
  for (const File& file : files_) {
    const auto all = file.mapped.bytes();
    if (weight.bytes.data() >= all.data() && weight.bytes.data() < all.data() + all.size())
      file.mapped.done_with(weight.bytes);
  }
}

std::uint64_t Weights::bytes() const {
  std::uint64_t sum = 0;
  for (const File& file : files_) {
    for (const auto& [name, tensor] : file.tensors) sum += tensor.bytes.size();
  }
  return sum;
}

}  // namespace kvasir
