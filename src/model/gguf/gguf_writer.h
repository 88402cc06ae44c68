// Writing GGUF version 3: whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backend/weight_type.h"

namespace kvasir {

struct GgufBools {
  std::vector<std::uint8_t> values;  // 0 or 1

  friend bool operator==(const GgufBools&, const GgufBools&) = default;
};

using GgufOutValue =
    std::variant<bool, std::uint32_t, float, std::string, std::vector<std::string>, std::vector<std::int32_t>,
                 std::vector<float>, std::vector<std::uint8_t>, GgufBools>;

struct GgufOutKey {
  std::string key;
  GgufOutValue value;
};

// A tensor that is made row by row while it is written.
struct GgufOutTensor {
  std::string name;
  std::vector<std::int64_t> shape = {};  // row-major, at least one dimension, the last in whole blocks of `type`
  DType type = DType::kF32;
  // Writes row `row` (all but the last dimension, counted through) to row_bytes(type, shape.back()) bytes. Called
  // from several threads at once; may not throw. False: the type cannot hold the row's numbers, and no file is made.
  std::function<bool(std::int64_t row, std::byte* to)> make_row = {};
  // Called before the first row and behind the last one, where they are there. The former may throw Error.
  std::function<void()> open = {};
  std::function<void()> close = {};

  std::int64_t rows() const;
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(rows()) * row_bytes(type, shape.back()); }
};

struct GgufWriteOptions {
  enum class Existing : std::uint8_t { kRefuse, kReplace };
  Existing existing = Existing::kRefuse;
  int threads = 1;
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;  // bytes of tensors; may be empty
};

// Written beside, synced and renamed: `path` is never half a file. Throws Error.
void write_gguf(const std::filesystem::path& path, std::span<const GgufOutKey> metadata,
                std::span<const GgufOutTensor> tensors, const GgufWriteOptions& options);

}  // namespace kvasir
