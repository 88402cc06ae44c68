#include "model/quantized/quantization_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/mmap_file.h"

namespace kvasir {
namespace {

constexpr JsonFileKind kQuantizedConfigFile{size_t{16} << 20, "check the file, or download it again"};
constexpr std::int64_t kLargestScaleBlock = 1 << 20;

using Method = QuantizationConfig::Method;

constexpr std::pair<std::string_view, Method> kMethods[] = {
    {"fp8", Method::kFp8}, {"fbgemm_fp8", Method::kFp8}, {"mxfp4", Method::kMxfp4},
    {"awq", Method::kAwq}, {"gptq", Method::kGptq},      {"compressed-tensors", Method::kCompressedTensors}};

// Of a field that may be missing: one of these values, or an Error that names both.
void require_one_of(const JsonReader& in, std::string_view key, std::initializer_list<std::string_view> supported) {
  const std::optional<JsonReader> value = in.find(key);
  if (!value) return;
  const std::string_view text = value->text();
  if (std::ranges::find(supported, text) != supported.end()) return;
  in.fail_inside(fmt::format("quantization_config.{} '{}' is not supported", key, text.substr(0, 40)),
                 fmt::format("supported: {}", fmt::join(supported, ", ")));
}

void require_bits(const JsonReader& in, std::string_view key, std::initializer_list<std::int64_t> supported) {
  const std::int64_t bits = in.get(key).integer();
  if (std::ranges::find(supported, bits) != supported.end()) return;
  in.fail_inside(fmt::format("quantization_config: {} {} is not supported", key, bits),
                 fmt::format("supported: {}", fmt::join(supported, ", ")));
}

void read_block(const JsonReader& sizes, QuantizationConfig& config) {
  if (sizes.items().size() != config.block.size()) sizes.fail("is not a list of two sizes");
  size_t i = 0;
  for (const JsonReader size : sizes.items()) config.block[i++] = size.integer({1, kLargestScaleBlock});
}

void read_fp8(const JsonReader& in, QuantizationConfig& config) {
  require_one_of(in, "fmt", {"e4m3", "float8_e4m3fn"});
  if (const auto block = in.find("weight_block_size")) read_block(*block, config);
}

void read_gptq(const JsonReader& in, QuantizationConfig& config) {
  require_bits(in, "bits", {4, 8});
  for (const char* key : {"checkpoint_format", "format"}) require_one_of(in, key, {"gptq", "gptq_v2"});
  if (in.flag_or("is_marlin_format", false)) {
    in.fail_inside("quantization_config.is_marlin_format true is not supported", "supported: gptq, gptq_v2");
  }
  const std::string_view format = in.text_or("checkpoint_format", in.text_or("format", "gptq"));
  config.zero_offset = format == "gptq_v2" ? 0 : 1;
}

void read_awq(const JsonReader& in) {
  require_bits(in, "bits", {4});
  for (const char* key : {"version", "format"}) require_one_of(in, key, {"gemm", "GEMM"});
}

// A group of modules: how its weights are quantized. What rows of activations would be rounded to does not matter.
void read_scheme(const JsonReader& scheme, QuantizationConfig& config) {
  require_one_of(scheme, "format",
                 {"dense", "int-quantized", "float-quantized", "naive-quantized", "pack-quantized"});
  const std::optional<JsonReader> weights = scheme.find("weights");
  if (!weights) return;
  const bool floats = weights->text_or("type", "int") == "float";
  if (floats) require_bits(*weights, "num_bits", {8});
  if (!floats) require_bits(*weights, "num_bits", {4, 8});
  require_one_of(*weights, "type", {"int", "float"});
  require_one_of(*weights, "strategy", {"tensor", "channel", "group", "block"});
  if (const auto block = weights->find("block_structure"); block && block->is_array()) read_block(*block, config);
}

void read_compressed_tensors(const JsonReader& in, QuantizationConfig& config) {
  require_one_of(
      in, "format",
      {"dense", "int-quantized", "float-quantized", "naive-quantized", "pack-quantized", "mixed-precision"});
  if (const auto sparsity = in.find("sparsity_config")) require_one_of(*sparsity, "format", {"dense"});
  if (const auto transforms = in.find("transform_config"); transforms && transforms->find("config_groups")) {
    in.fail_inside("quantization_config.transform_config is not supported", "use a checkpoint without transforms");
  }
  const std::optional<JsonReader> groups = in.find("config_groups");
  if (!groups) return;
  for (const auto [name, scheme] : groups->members()) {
    if (scheme.is_object()) read_scheme(scheme, config);
  }
}

}  // namespace

QuantizationConfig parse_quantization(const JsonReader& in) {
  const std::string_view name = in.get("quant_method").text();
  const auto* found = std::ranges::find(kMethods, name, &std::pair<std::string_view, Method>::first);
  if (found == std::end(kMethods)) {
    in.fail_inside(fmt::format("quantization_config.quant_method '{}' is not supported", name.substr(0, 40)),
                   "supported: fp8, mxfp4, awq, gptq, compressed-tensors");
  }
  QuantizationConfig config;
  config.method = found->second;
  if (config.method == Method::kFp8) read_fp8(in, config);
  if (config.method == Method::kGptq) read_gptq(in, config);
  if (config.method == Method::kAwq) read_awq(in);
  if (config.method == Method::kCompressedTensors) read_compressed_tensors(in, config);
  return config;
}

std::optional<QuantizationConfig> folder_quantization(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  const MmapFile file(path);
  const JsonDocument document(file.text(), path.string(), kQuantizedConfigFile);
  const JsonReader root = document.root();
  const std::optional<JsonReader> text = root.find("text_config");
  for (const JsonReader* in : {&root, text ? &*text : nullptr}) {
    if (in == nullptr) continue;
    for (const char* key : {"quantization_config", "compression_config"}) {
      if (const auto quantization = in->find(key)) return parse_quantization(*quantization);
    }
  }
  return std::nullopt;
}

std::string to_text(const QuantizationConfig& config) {
  return fmt::format("quantized {} block {}x{} zero {}", static_cast<int>(config.method), config.block[0],
                     config.block[1], config.zero_offset);
}

}  // namespace kvasir
