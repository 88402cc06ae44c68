#include "model/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace kvasir {
namespace {

constexpr std::uint64_t kLargestHeader = 100'000'000;  // the format's own limit

// Bytes of one element, or 0 for a type whose size we do not know.
std::uint64_t element_bytes(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::uint64_t> kSizes[] = {
      {"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4},  {"U32", 4},     {"F16", 2},     {"BF16", 2},
      {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  for (const auto& [name, bytes] : kSizes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> data, const std::string& where) : data_(data), where_(where) {}

  StoredTensor tensor(std::string_view name, JsonValue entry) const {
    StoredTensor out;
    const std::optional<JsonValue> dtype = entry.find("dtype");
    if (!dtype || !dtype->is_text()) fail(name, "has no dtype");
    out.dtype = *dtype->text();
    out.shape = integers(name, entry, "shape");
    const std::vector<std::int64_t> offsets = integers(name, entry, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1] || static_cast<std::uint64_t>(offsets[1]) > data_.size()) {
      fail(name, fmt::format("has data_offsets [{}] outside the file's {} bytes of data", fmt::join(offsets, ", "),
                             data_.size()));
    }
    const auto begin = static_cast<size_t>(offsets[0]);
    const auto size = static_cast<size_t>(offsets[1]) - begin;
    check_size(name, out, size);
    out.bytes = data_.subspan(begin, size);
    return out;
  }

  [[noreturn]] void fail(std::string_view name, const std::string& what) const {
    fail_input(fmt::format("tensor '{}' {}", name, what), where_, kDamagedFile);
  }

 private:
  std::vector<std::int64_t> integers(std::string_view name, JsonValue entry, const char* key) const {
    const std::optional<JsonValue> list = entry.find(key);
    if (!list || !list->is_array()) fail(name, fmt::format("has no list {}", key));
    std::vector<std::int64_t> out;
    for (const JsonValue item : list->items()) {
      const std::int64_t value = item.integer().value_or(-1);
      if (value < 0) fail(name, fmt::format("has a {} that is no size", key));
      out.push_back(value);
    }
    return out;
  }

  void check_size(std::string_view name, const StoredTensor& tensor, size_t size) const {
    std::uint64_t expected = element_bytes(tensor.dtype);
    if (expected == 0) return;  // an unknown type is refused when it is used
    for (const std::int64_t extent : tensor.shape) {
      if (__builtin_mul_overflow(expected, static_cast<std::uint64_t>(extent), &expected))
        fail(name, "has an impossible shape");
    }
    if (expected != size) {
      fail(name, fmt::format("takes {} bytes where {} [{}] needs {}", size, tensor.dtype,
                             fmt::join(tensor.shape, ", "), expected));
    }
  }

  std::span<const std::byte> data_;
  const std::string& where_;
};

void check_no_overlap(const TensorMap& tensors, const HeaderReader& reader) {
  std::vector<std::pair<std::string_view, std::span<const std::byte>>> ranges;
  for (const auto& [name, tensor] : tensors) ranges.emplace_back(name, tensor.bytes);
  std::ranges::sort(ranges, {}, [](const auto& range) { return range.second.data(); });
  for (size_t i = 1; i < ranges.size(); ++i) {
    const auto& before = ranges[i - 1].second;
    if (before.data() + before.size() > ranges[i].second.data()) {
      reader.fail(ranges[i].first, fmt::format("overlaps '{}'", ranges[i - 1].first));
    }
  }
}

}  // namespace

TensorMap parse_safetensors(std::span<const std::byte> file, const std::string& where) {
  std::uint64_t header_bytes = 0;
  if (file.size() < sizeof header_bytes)
    fail_input("the file is shorter than a safetensors header", where, kDamagedFile);
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  if (header_bytes > kLargestHeader || header_bytes > file.size() - sizeof header_bytes) {
    fail_input(fmt::format("the header claims {} bytes, and the file has {}", header_bytes, file.size()), where,
               kDamagedFile);
  }
  const auto header = file.subspan(sizeof header_bytes, static_cast<size_t>(header_bytes));
  std::string problem = "it is something else";
  const std::optional<JsonTree> parsed =
      JsonTree::parse({reinterpret_cast<const char*>(header.data()), header.size()}, problem);
  if (!parsed || !parsed->root().is_object()) {
    fail_input(fmt::format("the header is not a JSON object ({})", problem), where, kDamagedFile);
  }
  const HeaderReader reader(file.subspan(sizeof header_bytes + header.size()), where);
  TensorMap tensors;
  for (const auto [name, entry] : parsed->root().members()) {
    if (name == "__metadata__") continue;
    if (!tensors.emplace(std::string(name), reader.tensor(name, entry)).second) reader.fail(name, "is there twice");
  }
  check_no_overlap(tensors, reader);
  return tensors;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file(path), tensors(parse_safetensors(file.bytes(), path.string())) {}

}  // namespace kvasir
