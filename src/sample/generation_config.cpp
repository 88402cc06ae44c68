#include "sample/generation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/json_reader.h"
#include "base/mmap_file.h"

namespace kvasir {
namespace {

constexpr JsonFileKind kGenerationFile{size_t{16} << 20, "check the file, or download it again"};
constexpr IntegerRange kTopK{-1, 1 << 30};  // -1 is how vLLM's users say "all"

struct Range {
  double least;
  double most;
};

std::optional<float> number_if(const JsonReader& in, std::string_view key, Range range) {
  const std::optional<JsonReader> field = in.find(key);
  if (!field) return std::nullopt;
  const double value = field->number();
  if (value < range.least || value > range.most)
    field->fail(fmt::format("is {}, outside {}..{}", value, range.least, range.most));
  return static_cast<float>(value);
}

}  // namespace

SamplingOverrides parse_generation_config(std::string_view json, const std::string& where) {
  const JsonDocument document(json, where, kGenerationFile);
  const JsonReader in = document.root();
  SamplingOverrides out;
  out.temperature = number_if(in, "temperature", {0, 100});
  out.top_p = number_if(in, "top_p", {0, 1});
  out.min_p = number_if(in, "min_p", {0, 1});
  out.repetition_penalty = number_if(in, "repetition_penalty", {0.01, 100});
  if (const auto k = in.find("top_k")) out.top_k = static_cast<int>(std::max<std::int64_t>(k->integer(kTopK), 0));
  if (!in.flag_or("do_sample", true)) out.temperature = 0.0F;
  return out;
}

SamplingOverrides load_generation_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  const MmapFile text(file);
  return parse_generation_config(text.text(), file.string());
}

}  // namespace kvasir
