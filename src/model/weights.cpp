#include "model/weights.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "base/error.h"
#include "model/json_reader.h"

namespace kvasir {
namespace {

constexpr const char* kFix = "check that config.json and the weights belong together";

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

Weights::Weights(const std::filesystem::path& folder) : folder_(folder) {
  const std::filesystem::path single = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  if (std::filesystem::exists(index)) {
    open_shards(index);
  } else if (std::filesystem::exists(single)) {
    files_.emplace_back(single);
  } else {
    fail_input("the folder has neither model.safetensors nor model.safetensors.index.json", folder.string(),
               "give a folder with a Hugging Face model in safetensors format");
  }
}

void Weights::open_shards(const std::filesystem::path& index) {
  const MmapFile file(index);
  const JsonDocument document(file.text(), index.string());
  const auto map = document.root().object("weight_map");
  if (!map) document.root().fail("weight_map is missing");
  std::set<std::string> names;
  for (const auto [tensor, shard] : map->entries()) {
    std::string_view name;
    if (shard.get_string().get(name) != simdjson::SUCCESS) map->fail(fmt::format("{} is not a file name", tensor));
    // A shard lies beside its index: a name that leads elsewhere is not one of ours.
    if (name.empty() || name.find('/') != std::string_view::npos || name == "..") {
      map->fail(fmt::format("'{}' is not the name of a file beside the index", name));
    }
    names.emplace(name);
  }
  if (names.empty()) map->fail("weight_map names no file");
  for (const std::string& name : names) files_.emplace_back(folder_ / name);
}

const StoredTensor* Weights::find(std::string_view name) const {
  for (const SafetensorsFile& file : files_) {
    const auto found = file.tensors.find(name);
    if (found != file.tensors.end()) return &found->second;
  }
  return nullptr;
}

HostWeight Weights::matrix(std::string_view name, int rows, int cols) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) fail_input(fmt::format("tensor '{}' is missing", name), folder_.string(), kFix);
  std::vector<std::int64_t> expected{rows, cols};
  if (tensor->shape.size() == 1 && rows == 1) expected = {cols};
  if (tensor->shape != expected) {
    fail_input(fmt::format("tensor '{}' is {}, and the config calls for {}", name, shape_text(tensor->shape),
                           shape_text(expected)),
               folder_.string(), kFix);
  }
  HostWeight weight{tensor->bytes, DType::kF32, rows, cols};
  if (tensor->dtype == "BF16") {
    weight.dtype = DType::kBF16;
  } else if (tensor->dtype == "F16") {
    weight.dtype = DType::kF16;
  } else if (tensor->dtype != "F32") {
    fail_input(fmt::format("tensor '{}' has type {}", name, tensor->dtype), folder_.string(),
               "weights can be F32, F16 or BF16: convert the model to one of them");
  }
  return weight;
}

Key256 Weights::fingerprint() const {
  Key256 sum;
  for (const SafetensorsFile& file : files_) {
    for (const auto& [name, tensor] : file.tensors) {
      const std::string shape = shape_text(tensor.shape);
      const std::array<std::uint8_t, 16> content = content_hash(tensor.bytes);
      const std::array<std::string_view, 4> parts{
          name, tensor.dtype, shape, std::string_view(reinterpret_cast<const char*>(content.data()), content.size())};
      sum = keyed_hash(sum, parts);
    }
  }
  return sum;
}

void Weights::done_with(const HostWeight& weight) const {
  for (const SafetensorsFile& file : files_) {
    const auto all = file.file.bytes();
    if (weight.bytes.data() >= all.data() && weight.bytes.data() < all.data() + all.size())
      file.file.done_with(weight.bytes);
  }
}

std::uint64_t Weights::bytes() const {
  std::uint64_t sum = 0;
  for (const SafetensorsFile& file : files_) {
    for (const auto& [name, tensor] : file.tensors) sum += tensor.bytes.size();
  }
  return sum;
}

}  // namespace kvasir
