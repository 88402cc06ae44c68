#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "backend/quant/decode.h"
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

// What different publishers put before the names of one model's tensors.
std::string_view without_wrapper(std::string_view name) {
  for (const std::string_view wrapper :
       {"model.language_model.", "language_model.model.", "language_model.", "model.decoder.", "model.",
        "transformer.", "backbone.", "gpt_neox.", "decoder.", "bert.", "roberta."}) {
    if (name.starts_with(wrapper)) return name.substr(wrapper.size());
  }
  return name;
}

}  // namespace

Weights::Weights(const std::filesystem::path& path, std::vector<TensorSpec> tensors)
    : where_(path.string()), specs_(std::move(tensors)), quantized_(folder_quantization(path), path.string()) {
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
    file.tensors.emplace(without_wrapper(name),
                         Tensor{std::move(tensor.dtype), dtype, std::move(tensor.shape), tensor.bytes});
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

// Where files of this kind have a tensor.
FilePlace Weights::place_of(const TensorSpec& spec) const {
  FilePlace place = gguf_ ? spec.gguf_place() : spec.hf;
  if (!gguf_) place.name = spec.hf_name();
  if (find(place.name) != nullptr) return place;
  const std::vector<FilePlace>& others = gguf_ ? spec.gguf_else : spec.hf_else;
  const auto other = std::ranges::find_if(others, [this](const FilePlace& one) { return find(one.name) != nullptr; });
  return other == others.end() ? place : *other;
}

const Weights::Tensor* Weights::find(const std::string& stored) const {
  const std::string_view name = gguf_ ? std::string_view(stored) : without_wrapper(stored);
  for (const File& file : files_) {
    const auto found = file.tensors.find(name);
    if (found != file.tensors.end()) return &found->second;
  }
  return nullptr;
}

bool Weights::has(std::string_view name) const {
  const TensorSpec* spec = spec_of(name);
  const std::string stored = spec == nullptr ? std::string(name) : place_of(*spec).name;
  if (find(stored) != nullptr) return true;
  // A folder's quantized tensors have names behind that of what they are together.
  const std::string_view base = std::string_view(stored).substr(0, stored.rfind('.') + 1);
  const std::string_view wanted = gguf_ ? base : without_wrapper(base);
  return std::ranges::any_of(files_, [wanted](const File& file) {
    const auto next = file.tensors.lower_bound(wanted);
    return !wanted.empty() && next != file.tensors.end() && next->first.starts_with(wanted);
  });
}

// Of a folder's quantized tensors, [rows][cols] in a copy; none where the tensor is plain, or missing.
std::optional<Weights::Tensor> Weights::quantized_tensor(const AskedMatrix& asked) const {
  const auto found = [this](const std::string& name) -> std::optional<FileTensor> {
    const Tensor* tensor = find(name);
    if (tensor == nullptr) return std::nullopt;
    return FileTensor{tensor->type, tensor->shape, tensor->bytes};
  };
  std::optional<RelaidMatrix> made = quantized_.read(asked, found);
  if (!made) return std::nullopt;
  return Tensor{std::string(name_of(made->dtype)),
                made->dtype,
                {asked.rows, asked.cols},
                moved_.emplace_back(std::move(made->bytes))};
}

// The file's tensor, or an expert's part of it, with rows as long as asked for: in a copy where they are columns.
Weights::Tensor Weights::plain_tensor(const TensorSpec& spec, const FilePlace& place, const Shape& shape) const {
  const Tensor* stored = find(place.name);
  if (stored == nullptr) {
    fail_input(fmt::format("tensor '{}' is missing", gguf_ ? place.name : spec.hf_name()), where_, kMismatch);
  }
  Tensor tensor = *stored;
  const std::int64_t file_rows = place.slice.whole() ? shape.rows : place.slice.file_rows;
  std::vector<std::int64_t> expected{file_rows / std::max(place.parts, 1), shape.cols};
  if (shape.vector) expected = {file_rows};
  const bool transposed = place.axes == FilePlace::Axes::kTransposed;
  if (transposed) std::ranges::reverse(expected);
  if (place.parts > 0) expected.insert(expected.begin(), place.parts);
  std::vector<std::int64_t> whole = expected;
  if (place.all_experts) whole.insert(whole.begin(), spec.experts);
  while (shape.vector && tensor.shape.size() > whole.size()) {  // it may be written with axes of one number
    const auto one = std::ranges::find(tensor.shape, 1);
    if (one == tensor.shape.end()) break;
    tensor.shape.erase(one);
  }
  const std::vector<std::int64_t> as_matrix{file_rows / std::max(spec.gguf_vector_cols, 1), spec.gguf_vector_cols};
  if (gguf_ && shape.vector && tensor.shape == as_matrix) tensor.shape = expected;
  while (place.channels && tensor.shape.size() > whole.size()) {  // one input each, and llama.cpp has a fourth axis
    const auto one = std::ranges::find(tensor.shape, 1);
    if (one == tensor.shape.end()) break;
    tensor.shape.erase(one);
  }
  if (place.all_experts && tensor.shape == whole) tensor = expert_of(tensor, spec);
  if (tensor.shape != expected) {
    fail_input(fmt::format("tensor '{}' is {}, and the config calls for {}", place.name, shape_text(stored->shape),
                           shape_text(whole)),
               where_, kMismatch);
  }
  if (!tensor.dtype) {
    fail_input(fmt::format("tensor '{}' has type {}", place.name, tensor.type), where_,
               "this type is not computed: convert the model to another, such as F32, F16, BF16 or q8_0");
  }
  return transposed ? turned(tensor) : tensor;
}

HostWeight Weights::matrix(std::string_view name, int rows, int cols) const {
  const TensorSpec* known = spec_of(name);
  TensorSpec spec = known != nullptr ? *known : TensorSpec{.name = std::string(name), .gguf = std::string(name)};
  // Some files of a family that stacks its experts have each of them by itself.
  const bool stacked = !gguf_ && spec.hf.all_experts;
  if (stacked && find(spec.hf_name()) == nullptr && find(spec.name) != nullptr) spec.hf = {};
  const FilePlace place = place_of(spec);
  const bool vector = rows == 1;
  const Shape shape{vector, vector ? cols : rows, vector ? 1 : cols};
  std::optional<Tensor> tensor;
  if (!gguf_ && !vector) {
    const std::int64_t file_rows = place.slice.whole() ? rows : place.slice.file_rows;
    tensor = quantized_tensor(
        {place.name, static_cast<int>(file_rows), cols, place.all_experts ? spec.expert : -1, spec.experts});
  }
  if (!tensor) tensor = plain_tensor(spec, place, shape);
  const std::span<const std::byte> ours = in_our_order(*tensor, spec, place.slice, shape);
  if (ours.data() != tensor->bytes.data()) forget_copy(tensor->bytes);
  return {ours, *tensor->dtype, rows, cols};
}

// One expert's part of a tensor of all experts of a layer: [experts][…].
Weights::Tensor Weights::expert_of(const Tensor& all, const TensorSpec& spec) {
  const size_t bytes = all.bytes.size() / static_cast<size_t>(spec.experts);
  return {all.type,
          all.dtype,
          {all.shape.begin() + 1, all.shape.end()},
          all.bytes.subspan(bytes * static_cast<size_t>(spec.expert), bytes)};
}

// Each [inputs][outputs] of it as [outputs][inputs]. Blocks cannot be turned around: of a quantized type in float32.
Weights::Tensor Weights::turned(const Tensor& tensor) const {
  const size_t axes = tensor.shape.size();
  const auto inputs = static_cast<size_t>(tensor.shape[axes - 2]);
  const auto outputs = static_cast<size_t>(tensor.shape[axes - 1]);
  const DType dtype = is_quantized(*tensor.dtype) ? DType::kF32 : *tensor.dtype;
  const size_t size = block_bytes(dtype);
  const size_t stored = row_bytes(*tensor.dtype, tensor.shape[axes - 1]);
  const size_t rows = tensor.bytes.size() / stored;
  std::vector<std::byte>& out = moved_.emplace_back(rows * outputs * size);
  std::vector<std::byte> row(outputs * size);
  for (size_t r = 0; r < rows; ++r) {
    const std::byte* from = tensor.bytes.data() + r * stored;
    if (dtype != tensor.dtype) {
      decode_row(*tensor.dtype, from, static_cast<int>(outputs), reinterpret_cast<float*>(row.data()));
      from = row.data();
    }
    std::byte* to = out.data() + r / inputs * inputs * outputs * size + r % inputs * size;
    for (size_t o = 0; o < outputs; ++o) std::memcpy(to + o * inputs * size, from + o * size, size);
  }
  return {tensor.type, dtype, tensor.shape, out};
}

// The rows (of a vector: the numbers) that are asked for, as the decoder takes them: out of a tensor that has more,
// and out of an order in which rope's pairs lie side by side. Whole rows move, so their type does not matter.
std::span<const std::byte> Weights::in_our_order(const Tensor& tensor, const TensorSpec& spec, const RowSlice& slice,
                                                 const Shape& shape) const {
  const bool pairs = (gguf_ ? spec.gguf_rows : spec.hf_rows) == GgufRows::kInterleaved;
  if (slice.whole() && !pairs) return tensor.bytes;
  if ((pairs && shape.rows % spec.head_dim != 0) || (shape.vector && is_quantized(*tensor.dtype))) {
    fail_input(fmt::format("tensor '{}' is {} of type {}, which has no whole heads", spec.name,
                           shape_text(tensor.shape), tensor.type),
               where_, kMismatch);
  }
  const size_t row = row_bytes(*tensor.dtype, shape.cols);
  const size_t bytes = row * static_cast<size_t>(shape.rows);
  if (!pairs && slice.contiguous()) {
    const std::span<const std::byte> part = tensor.bytes.subspan(row * static_cast<size_t>(slice.first), bytes);
    if (moved_.empty() || moved_.back().data() != tensor.bytes.data()) return part;
    return moved_.emplace_back(part.begin(), part.end());  // a copy's beginning is how it is known
  }
  std::vector<std::byte>& out = moved_.emplace_back(bytes);
  const InterleavedRows order{pairs ? spec.head_dim : 1, spec.rotated_dim, spec.rotated_first};
  for (int r = 0; r < shape.rows; ++r) {
    const std::int64_t from = slice.file_row(pairs ? order.gguf_row(r) : r);
    std::memcpy(out.data() + static_cast<size_t>(r) * row, tensor.bytes.data() + static_cast<size_t>(from) * row,
                row);
  }
  return out;
}

Key256 Weights::fingerprint() const {
  Key256 sum;
  if (quantized_.config()) {  // the same tensors mean something else with another one
    const std::string config = to_text(*quantized_.config());
    sum = keyed_hash(sum, std::array<std::string_view, 1>{config});
  }
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

bool Weights::forget_copy(std::span<const std::byte> bytes) const {
  return moved_.remove_if([&](const auto& copy) { return copy.data() == bytes.data(); }) > 0;
}

void Weights::done_with(const HostWeight& weight) const {
  if (forget_copy(weight.bytes)) return;
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
