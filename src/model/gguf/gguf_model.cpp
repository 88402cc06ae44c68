#include "model/gguf/gguf_model.h"

#include <fmt/format.h>

#include <cmath>
#include <regex>

#include "base/error.h"

namespace kvasir {
namespace {

constexpr const char* kExtension = ".gguf";
constexpr int kMostParts = 9999;

// "model-00002-of-00003.gguf": which part it is, of how many, and what stands before.
struct Part {
  std::string stem;
  int number = 0;
  int count = 0;

  std::filesystem::path beside(const std::filesystem::path& path, int other) const {
    return path.parent_path() / fmt::format("{}-{:05}-of-{:05}{}", stem, other, count, kExtension);
  }
};

std::optional<Part> part_of(const std::filesystem::path& path) {
  static const std::regex kPattern(R"((.*)-(\d{5})-of-(\d{5})\.gguf)");
  std::smatch match;
  const std::string name = path.filename().string();
  if (name.size() > 255 || !std::regex_match(name, match, kPattern)) return std::nullopt;
  return Part{match[1], std::stoi(match[2]), std::stoi(match[3])};
}

}  // namespace

std::optional<std::filesystem::path> find_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    if (path.extension() == kExtension) return path;
    return std::nullopt;
  }
  for (const char* file : {"model.safetensors", "model.safetensors.index.json"}) {
    if (std::filesystem::exists(path / file, ignored)) return std::nullopt;
  }
  std::optional<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
    if (entry.path().extension() != kExtension) continue;
    const std::optional<Part> part = part_of(entry.path());
    if (part && part->number != 1) continue;
    if (found) {
      fail_input(fmt::format("the folder has several models, '{}' and '{}' among them", found->filename().string(),
                             entry.path().filename().string()),
                 path.string(), "name one of the files");
    }
    found = entry.path();
  }
  return found;
}

GgufModel::GgufModel(const std::filesystem::path& path) : where_(path.string()) {
  if (part_of(path)) {
    open_parts(path);
  } else {
    files_.emplace_back(path);
    if (integer_if("split.count", 0, kMostParts).value_or(1) > 1) {
      fail("the file is one part of several, and its name does not say which");
    }
  }
}

void GgufModel::open_parts(const std::filesystem::path& path) {
  const Part part = *part_of(path);
  if (part.count < 1 || part.count > kMostParts || part.number != 1) {
    fail(fmt::format("the file is part {} of {}: name the first one", part.number, part.count));
  }
  for (int i = 1; i <= part.count; ++i) files_.emplace_back(part.beside(path, i));
  const std::int64_t count = integer_if("split.count", 0, kMostParts).value_or(part.count);
  if (count != part.count) fail(fmt::format("the file says {} parts, and its name {}", count, part.count));
  for (const GgufFile& a : files_) {
    for (const auto& [name, tensor] : a.content.tensors) {
      if (find(name) != &tensor) fail(fmt::format("tensor '{}' is in two parts", name));
    }
  }
}

const GgufTensor* GgufModel::find(std::string_view tensor) const {
  for (const GgufFile& file : files_) {
    const auto found = file.content.tensors.find(tensor);
    if (found != file.content.tensors.end()) return &found->second;
  }
  return nullptr;
}

std::uint64_t GgufModel::tensor_bytes() const {
  std::uint64_t sum = 0;
  for (const GgufFile& file : files_) {
    for (const auto& [name, tensor] : file.content.tensors) sum += tensor.bytes.size();
  }
  return sum;
}

void GgufModel::fail(std::string what) const {
  fail_input(std::move(what), where_, "check the file, or download it again");
}

const GgufValue* GgufModel::value(std::string_view key) const {
  const auto& metadata = files_.front().content.metadata;
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

std::optional<std::int64_t> GgufModel::integer_if(std::string_view key, std::int64_t least, std::int64_t most) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  std::int64_t number = 0;
  if (const auto* natural = std::get_if<std::uint64_t>(found)) {
    number = *natural > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(*natural);
  } else if (const auto* integer = std::get_if<std::int64_t>(found)) {
    number = *integer;
  } else {
    fail(fmt::format("{} is not an integer", key));
  }
  if (number < least || number > most) fail(fmt::format("{} is {}, outside {}..{}", key, number, least, most));
  return number;
}

std::int64_t GgufModel::integer(std::string_view key, std::int64_t least, std::int64_t most) const {
  const std::optional<std::int64_t> number = integer_if(key, least, most);
  if (!number) fail(fmt::format("{} is missing", key));
  return *number;
}

std::optional<double> GgufModel::finite_if(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  const auto* number = std::get_if<double>(found);
  if (number == nullptr) fail(fmt::format("{} is not a floating-point number", key));
  if (!std::isfinite(*number)) fail(fmt::format("{} is {}, and must be a number", key, *number));
  return *number;
}

std::optional<double> GgufModel::positive_if(std::string_view key) const {
  const std::optional<double> number = finite_if(key);
  if (number && *number <= 0) fail(fmt::format("{} is {}, and must be positive", key, *number));
  return number;
}

std::optional<double> GgufModel::not_negative_if(std::string_view key) const {
  const std::optional<double> number = finite_if(key);
  if (number && *number < 0) fail(fmt::format("{} is {}, and must not be negative", key, *number));
  return number;
}

std::optional<bool> GgufModel::flag_if(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  const auto* flag = std::get_if<bool>(found);
  if (flag == nullptr) fail(fmt::format("{} is not true or false", key));
  return *flag;
}

std::optional<std::string_view> GgufModel::text_if(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string_view>(found);
  if (text == nullptr) fail(fmt::format("{} is not a string", key));
  return *text;
}

const GgufStrings* GgufModel::strings_if(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return nullptr;
  const auto* strings = std::get_if<GgufStrings>(found);
  if (strings == nullptr) fail(fmt::format("{} is not a list of strings", key));
  return strings;
}

const GgufNumbers* GgufModel::numbers_if(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return nullptr;
  const auto* numbers = std::get_if<GgufNumbers>(found);
  if (numbers == nullptr) fail(fmt::format("{} is not a list of numbers", key));
  return numbers;
}

}  // namespace kvasir
