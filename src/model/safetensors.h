// The safetensors format: eight bytes of header length, a JSON header, then the tensors' bytes.
//
// Nothing in the header is believed before it was checked: every range lies inside the file, has the size its shape
// and type call for, and overlaps no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mmap_file.h"

namespace kvasir {

struct StoredTensor {
  std::string dtype;                 // as the file spells it: "BF16", "F32", "I64", …
  std::vector<std::int64_t> shape;   // row-major
  std::span<const std::byte> bytes;  // inside the file
};

using TensorMap = std::map<std::string, StoredTensor, std::less<>>;

// The tensors of a file that is already in memory: what the fuzzer drives. Throws Error.
TensorMap parse_safetensors(std::span<const std::byte> file, const std::string& where);

struct SafetensorsFile {
  explicit SafetensorsFile(const std::filesystem::path& path);

  MmapFile file;
  TensorMap tensors;  // their bytes point into the mapping
};

}  // namespace kvasir
