// A model in GGUF: one file, or the parts of one that was split; its metadata with types and ranges checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/gguf/gguf_file.h"

namespace kvasir {

// The GGUF file that `path` means: the file itself, or the only one (or the first part of the only split one) in a
// folder without safetensors. None when `path` is something else; throws Error when a folder has several.
std::optional<std::filesystem::path> find_gguf(const std::filesystem::path& path);

class GgufModel {
 public:
  // Opens the file and, for "…-00001-of-00003.gguf", the other parts beside it. Throws Error.
  explicit GgufModel(const std::filesystem::path& path);

  // One that is in memory already: what the fuzzer drives.
  GgufModel(GgufFile file, std::string where) : where_(std::move(where)) { files_.push_back(std::move(file)); }

  const std::string& where() const { return where_; }
  const std::vector<GgufFile>& files() const { return files_; }
  std::vector<GgufFile> take_files() && { return std::move(files_); }
  const GgufTensor* find(std::string_view tensor) const;
  std::uint64_t tensor_bytes() const;  // of all tensors of types we know

  [[noreturn]] void fail(std::string what) const;

  // Metadata, which is the first part's. A key that is there with the wrong type, or a number outside
  // least … most, is an Error; so is one that is not there where no optional is returned.
  const GgufValue* value(std::string_view key) const;
  std::optional<std::int64_t> integer_if(std::string_view key, std::int64_t least, std::int64_t most) const;
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most) const;
  std::optional<double> positive_if(std::string_view key) const;      // finite, above zero
  std::optional<double> not_negative_if(std::string_view key) const;  // finite, zero or above
  std::optional<double> finite_if(std::string_view key) const;
  std::optional<bool> flag_if(std::string_view key) const;
  std::optional<std::string_view> text_if(std::string_view key) const;
  const GgufStrings* strings_if(std::string_view key) const;
  const GgufNumbers* numbers_if(std::string_view key) const;

 private:
  void open_parts(const std::filesystem::path& path);

  std::string where_;
  std::vector<GgufFile> files_;  // at least one
};

}  // namespace kvasir
