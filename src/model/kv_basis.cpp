#include "model/kv_basis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/mmap_file.h"
#include "model/safetensors.h"

namespace kvasir {
namespace {

constexpr const char* kMakeIt = "make it anew with kvasir tune --rank, or take it away";

void append(std::vector<std::byte>& to, std::span<const std::byte> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Reads tensors of one file, each with the type and shape it must have.
class Tensors {
 public:
  Tensors(std::span<const std::byte> file, const std::string& where)
      : where_(where), tensors_(parse_safetensors(file, where)) {}

  std::span<const std::byte> bytes(const char* name, std::string_view dtype,
                                   const std::vector<std::int64_t>& shape) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) fail(fmt::format("there is no tensor '{}'", name));
    const StoredTensor& tensor = found->second;
    if (tensor.dtype != dtype || tensor.shape != shape) {
      fail(fmt::format("'{}' is {} [{}], and this model needs {} [{}]", name, tensor.dtype,
                       fmt::join(tensor.shape, ", "), dtype, fmt::join(shape, ", ")));
    }
    return tensor.bytes;
  }

  [[noreturn]] void fail(const std::string& what) const { fail_input(what, where_, kMakeIt); }

 private:
  const std::string& where_;
  TensorMap tensors_;
};

// The part of a layer, out of a tensor's bytes, which may lie anywhere.
template <class T>
std::vector<T> part(std::span<const std::byte> bytes, size_t layer, size_t count) {
  std::vector<T> out(count);
  std::memcpy(out.data(), bytes.data() + layer * count * sizeof(T), count * sizeof(T));
  return out;
}

void check_numbers(const Tensors& file, const KvBasis& basis) {
  for (const KvBasis::Layer& layer : basis.layers) {
    for (const std::vector<float>* numbers : {&layer.keys, &layer.queries, &layer.values}) {
      if (!std::ranges::all_of(*numbers, [](float value) { return std::isfinite(value); })) {
        file.fail("it holds what is not a number");
      }
    }
    for (auto first = layer.channels.begin(); first != layer.channels.end(); first += basis.dim) {
      std::vector<std::int32_t> sorted(first, first + basis.dim);
      std::ranges::sort(sorted);
      for (int i = 0; i < basis.dim; ++i) {
        if (sorted[static_cast<size_t>(i)] != i) file.fail("its channels are not each there once");
      }
    }
  }
}

}  // namespace

std::vector<std::byte> kv_basis_bytes(const KvBasis& basis, const Key256& model) {
  std::array<std::vector<std::byte>, 4> data;
  for (const KvBasis::Layer& layer : basis.layers) {
    append(data[0], std::as_bytes(std::span(layer.keys)));
    append(data[1], std::as_bytes(std::span(layer.queries)));
    append(data[2], std::as_bytes(std::span(layer.values)));
    append(data[3], std::as_bytes(std::span(layer.channels)));
  }
  const std::string sizes = fmt::format("{},{},{}", basis.layers.size(), basis.kv_heads, basis.dim);
  size_t at = model.bytes.size();
  std::string header = fmt::format(R"({{"model":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}})", at);
  constexpr std::array kNames{"keys", "queries", "values", "channels"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    const std::string shape = i < 3 ? fmt::format("{},{}", sizes, basis.dim) : sizes;
    header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", kNames[i],
                          i < 3 ? "F32" : "I32", shape, at, at + data[i].size());
    at += data[i].size();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  std::vector<std::byte> out;
  append(out, std::as_bytes(std::span(&length, 1)));
  append(out, std::as_bytes(std::span(header)));
  append(out, std::as_bytes(std::span(model.bytes)));
  for (const auto& tensor : data) append(out, tensor);
  return out;
}

KvBasis parse_kv_basis(std::span<const std::byte> file, const ModelSpec& spec, const Key256& model,
                       const std::string& where) {
  const Tensors tensors(file, where);
  const KvShape& kv = spec.uniform_attention().kv;
  const std::vector<std::int64_t> channels{spec.layer_count(), kv.heads, kv.k_dim};
  std::vector<std::int64_t> square = channels;
  square.push_back(kv.k_dim);
  const auto name = tensors.bytes("model", "U8", {std::ssize(model.bytes)});
  const auto keys = tensors.bytes("keys", "F32", square);
  const auto queries = tensors.bytes("queries", "F32", square);
  const auto values = tensors.bytes("values", "F32", square);
  const auto order = tensors.bytes("channels", "I32", channels);
  if (!std::ranges::equal(name, std::as_bytes(std::span(model.bytes)))) {
    tensors.fail("it was made for another model, or for other weights");
  }
  KvBasis basis;
  basis.kv_heads = kv.heads;
  basis.dim = kv.k_dim;
  const size_t rows = static_cast<size_t>(kv.heads) * static_cast<size_t>(kv.k_dim);
  const size_t count = rows * static_cast<size_t>(kv.k_dim);
  for (size_t layer = 0; layer < static_cast<size_t>(spec.layer_count()); ++layer) {
    basis.layers.push_back({part<float>(keys, layer, count), part<float>(queries, layer, count),
                            part<float>(values, layer, count), part<std::int32_t>(order, layer, rows)});
  }
  check_numbers(tensors, basis);
  const std::array<std::string_view, 1> all{{{reinterpret_cast<const char*>(file.data()), file.size()}}};
  basis.name = keyed_hash({}, all);
  return basis;
}

KvBasis load_kv_basis(const std::filesystem::path& file, const ModelSpec& spec, const Key256& model) {
  const MmapFile bytes(file);
  return parse_kv_basis(bytes.bytes(), spec, model, file.string());
}

std::filesystem::path find_kv_basis(const std::filesystem::path& given, const std::filesystem::path& model) {
  std::error_code ignored;
  if (!given.empty() || !std::filesystem::is_directory(model, ignored)) return given;
  const std::filesystem::path beside = model / kKvBasisFile;
  return std::filesystem::exists(beside, ignored) ? beside : std::filesystem::path{};
}

}  // namespace kvasir
