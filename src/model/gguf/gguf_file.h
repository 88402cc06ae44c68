// The GGUF container: a header, metadata by key, the list of tensors, then their bytes.
//
// Nothing is believed before it was checked: every count and length lies inside the file, every tensor has the bytes
// its shape and type call for, starts where the alignment says, and overlaps no other. Versions 2 and 3, little
// endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "backend/weight_type.h"
#include "base/mmap_file.h"

namespace kvasir {

// Types of metadata, by the numbers the files use.
enum class GgufType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

// Numbers of one type, unaligned in the file; kBool counts as one.
struct GgufNumbers {
  GgufType type = GgufType::kU8;
  std::span<const std::byte> bytes;

  std::size_t size() const;
  double at(std::size_t i) const;  // i < size(); integers beyond 2^53 are rounded
};

struct GgufNested {};  // an array of arrays: checked, and not kept

using GgufStrings = std::vector<std::string_view>;
using GgufValue =
    std::variant<bool, std::int64_t, std::uint64_t, double, std::string_view, GgufNumbers, GgufStrings, GgufNested>;

struct GgufTensor {
  std::uint32_t type = 0;            // as the file numbers it
  std::optional<DType> dtype;        // none: a type we do not compute
  std::vector<std::int64_t> shape;   // row-major: the file's dimensions turned around
  std::span<const std::byte> bytes;  // inside the file; of a type we do not know, empty
};

// Strings and bytes point into the file.
struct GgufContent {
  std::map<std::string_view, GgufValue> metadata;
  std::map<std::string_view, GgufTensor> tensors;
};

// The content of a file that is already in memory: what the fuzzer drives. Throws Error.
GgufContent parse_gguf(std::span<const std::byte> file, const std::string& where);

struct GgufFile {
  explicit GgufFile(const std::filesystem::path& path);
  explicit GgufFile(GgufContent held) : content(std::move(held)) {}

  std::optional<MmapFile> file;  // none: the bytes are another's, and outlive this
  GgufContent content;
};

inline constexpr std::uint32_t kGgufMagic = 0x46554747;  // "GGUF"
inline constexpr std::uint64_t kGgufAlignment = 32;      // unless general.alignment says otherwise

// The number a file uses for our type, and the name of any of its types, ours or not: "iq2_xs".
std::uint32_t gguf_number_of(DType type);
std::string gguf_type_name(std::uint32_t number);

}  // namespace kvasir
