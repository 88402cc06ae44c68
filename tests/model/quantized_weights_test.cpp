// Folders with quantized weights, written here byte by byte as their formats say: they compute what a folder with the
// numbers computes that their codes and scales stand for. And damaged ones: each a clear error.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "backend/make_backend.h"
#include "backend/weight_reader.h"
#include "base/error.h"
#include "model/quantized/quantized_tensors.h"
#include "model/quantized_formats.h"
#include "model/safetensors.h"
#include "support/fixtures.h"
#include "support/forward.h"
#include "support/random_data.h"

namespace kvasir::testing {
namespace {

namespace fs = std::filesystem;

constexpr float kE2m1[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};

class QuantizedFolder : public ::testing::TestWithParam<Format> {
 protected:
  QuantizedFolder() { fs::remove_all(path_); }
  ~QuantizedFolder() override { fs::remove_all(path_); }

  struct Linear {
    const char* name;
    int rows, cols;
  };
  static constexpr Linear kLinears[] = {{"self_attn.q_proj", 64, 64}, {"self_attn.k_proj", 32, 64},
                                        {"self_attn.v_proj", 32, 64}, {"self_attn.o_proj", 64, 64},
                                        {"mlp.gate_proj", 96, 64},    {"mlp.up_proj", 96, 64},
                                        {"mlp.down_proj", 64, 96}};

  // The same model twice: quantized, and as the numbers that stands for.
  void make(const Format& format) {
    quantized_ = plain_ = ends();
    std::uint64_t seed = 10;
    for (const Linear& linear : kLinears) {
      const std::string module = std::string("model.layers.0.") + linear.name;
      const Codes codes = make_codes(format.scheme, linear.rows, linear.cols, seed += 10);
      format.write(codes, {quantized_, module});
      std::vector<float> values;
      for (int r = 0; r < linear.rows; ++r) {
        for (int c = 0; c < linear.cols; ++c) values.push_back(codes.value(r, c));
      }
      plain_[module + ".weight"] = {"F32", {linear.rows, linear.cols}, bytes_of(values)};
    }
  }

  static WrittenTensors ends() {
    WrittenTensors out;
    const auto floats = [&out](const std::string& name, std::vector<std::int64_t> shape, std::uint64_t seed) {
      const size_t count = static_cast<size_t>(shape[0]) * (shape.size() == 2 ? static_cast<size_t>(shape[1]) : 1);
      out[name] = {"F32", shape, bytes_of(noise_vector(count, seed))};
    };
    floats("model.embed_tokens.weight", {40, 64}, 1);
    floats("lm_head.weight", {40, 64}, 2);
    floats("model.norm.weight", {64}, 3);
    floats("model.layers.0.input_layernorm.weight", {64}, 4);
    floats("model.layers.0.post_attention_layernorm.weight", {64}, 5);
    return out;
  }

  fs::path quantized(const std::string& config) const {
    write_folder(path_ / "quantized", quantized_, config);
    return path_ / "quantized";
  }
  fs::path plain() const {
    write_folder(path_ / "plain", plain_, "");
    return path_ / "plain";
  }

  static std::vector<float> logits(const fs::path& folder, const BackendOptions& options) {
    const auto backend = make_backend(options);
    return forward(*load_model(folder, *backend, {64, {}}), *backend, {3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 32});
  }

  std::string error(const std::string& config) const {
    try {
      logits(quantized(config), {"ref", 1, "auto"});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  WrittenTensors quantized_;
  WrittenTensors plain_;
  fs::path path_ = fs::temp_directory_path() / ("kvasir_quantized_weights_" + std::to_string(::getpid()));
};

INSTANTIATE_TEST_SUITE_P(Formats, QuantizedFolder, ::testing::ValuesIn(all_quantized_formats()),
                         [](const auto& format) { return format.param.name; });

TEST_P(QuantizedFolder, ComputesWhatItsNumbersDo) {
  make(GetParam());
  const fs::path quantized_folder = quantized(GetParam().config);
  const fs::path plain_folder = plain();
  const Weights weights(quantized_folder, {});
  for (const Linear& linear : kLinears) {
    const std::string name = std::string("model.layers.0.") + linear.name + ".weight";
    const HostWeight weight = weights.matrix(name, linear.rows, linear.cols);
    EXPECT_EQ(name_of(weight.dtype), name_of(GetParam().type)) << name;
    for (int r = 0; r < linear.rows; ++r) {
      std::vector<float> row(static_cast<size_t>(linear.cols));
      read_row(weight, r, row.data());
      const float* want = reinterpret_cast<const float*>(plain_[name].bytes.data()) + r * linear.cols;
      ASSERT_EQ(row, std::vector<float>(want, want + linear.cols)) << name << ", output " << r;
    }
    weights.done_with(weight);
  }
  for (const char* device : {"ref", "cpu"}) {
    BackendOptions options{device, 2, "auto"};
    const std::vector<float> rounded = logits(quantized_folder, options);
    options.activations = ActivationPrecision::kF32;
    const std::vector<float> want = logits(plain_folder, options);
    EXPECT_EQ(logits(quantized_folder, options), want) << device;
    const double error = relative_error(rounded, want);
    EXPECT_LT(error, has_integers(GetParam().type) ? 0.05 : 1e-6) << device;
    if (has_integers(GetParam().type)) {
      EXPECT_GT(error, 1e-6) << device;
    }
  }
}

TEST_P(QuantizedFolder, AModuleThatWasNotQuantizedIsPlain) {
  make(GetParam());
  const std::string module = "model.layers.0.mlp.up_proj";
  std::erase_if(quantized_, [&](const auto& entry) { return entry.first.starts_with(module); });
  quantized_[module + ".weight"] = plain_[module + ".weight"];
  const BackendOptions exact{"ref", 1, "auto", ActivationPrecision::kF32};
  EXPECT_EQ(logits(quantized(GetParam().config), exact), logits(plain(), exact));
}

// Without any one of its tensors, or with one of another type or shape, a folder is refused in a line that names it.
TEST_P(QuantizedFolder, EveryDamagedTensorIsNamed) {
  make(GetParam());
  const std::string module = "model.layers.0.self_attn.o_proj";
  const WrittenTensors whole = quantized_;
  for (const auto& [name, tensor] : whole) {
    if (!name.starts_with(module) || name.ends_with("_shape")) continue;
    SCOPED_TRACE(name);
    const bool optional = name.ends_with("g_idx") || name.ends_with("zero_point");
    quantized_.erase(name);
    if (!optional) {
      EXPECT_NE(error(GetParam().config).find("is missing"), std::string::npos) << error(GetParam().config);
    }
    quantized_ = whole;
    quantized_[name].shape.insert(quantized_[name].shape.begin(), 1);  // as many bytes
    if (tensor.shape.empty()) quantized_[name].shape = {1, 1, 1};
    EXPECT_NE(error(GetParam().config).find("and the config calls for"), std::string::npos)
        << error(GetParam().config);
    quantized_ = whole;
    quantized_[name].type = tensor.type == "F16" ? "I16" : tensor.type == "F32" ? "I32" : "F32";
    if (tensor.bytes.size() % 4 != 0) quantized_[name].type = "BOOL";
    quantized_[name].shape = {static_cast<std::int64_t>(tensor.bytes.size()) / (quantized_[name].type == "I16" ? 2
                                                                                : quantized_[name].type == "BOOL"
                                                                                    ? 1
                                                                                    : 4)};
    EXPECT_NE(error(GetParam().config).find(module), std::string::npos) << error(GetParam().config);
    quantized_ = whole;
  }
}

TEST_F(QuantizedFolder, ScalesThatAreNoNumbersAreRefused) {
  for (const Format& format : all_quantized_formats()) {
    make(format);
    for (auto& [name, tensor] : quantized_) {
      if (!name.ends_with("scale") && !name.ends_with("scales") && !name.ends_with("scale_inv")) continue;
      if (tensor.type == "F16") tensor.bytes.replace(0, 2, "\x00\x7e", 2);
      if (tensor.type == "F32") tensor.bytes.replace(0, 4, "\x00\x00\x80\x7f", 4);
    }
    EXPECT_NE(error(format.config).find("the scale of"), std::string::npos) << format << error(format.config);
  }
}

TEST_F(QuantizedFolder, OtherDefectsHaveTheirErrors) {
  const auto format = [](const std::string& name) {
    const std::vector<Format> all = all_quantized_formats();
    return *std::ranges::find(all, name, &Format::name);
  };
  const std::string module = "model.layers.0.mlp.down_proj";
  make(format("fp8_outputs"));
  quantized_[module + ".weight"].bytes[7] = '\x7f';
  EXPECT_NE(error(kCompressed).find("a weight that is no number, of output 0 and input 7"), std::string::npos);
  make(format("gptq_order"));
  quantized_[module + ".g_idx"].bytes[3] = '\x7f';
  EXPECT_NE(error(kGptq).find("puts an input into group"), std::string::npos);
  EXPECT_NE(error("").find("has no quantization_config of gptq or awq"), std::string::npos);
  make(format("int4_groups"));
  quantized_[module + ".weight_scale"] = {"F16", {64, 5}, std::string(640, '\x01')};
  EXPECT_NE(error(kCompressed).find("has 5 groups, which do not divide 96 inputs"), std::string::npos);
  quantized_[module + ".weight_packed"] = {"I32", {64, 9}, std::string(64 * 36, '\x01')};
  EXPECT_NE(error(kCompressed).find("4 or 8 bits a weight"), std::string::npos);
}

TEST_F(QuantizedFolder, ConfigsThatAreNotReadAreNamed) {
  make(all_quantized_formats().front());
  const std::pair<const char*, const char*> kCases[] = {
      {R"({"quant_method":"bitsandbytes","load_in_4bit":true})", "quant_method 'bitsandbytes' is not supported"},
      {R"({"bits":4})", "quant_method is missing"},
      {R"({"quant_method":"gptq","bits":3})", "bits 3 is not supported"},
      {R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})", "checkpoint_format 'marlin'"},
      {R"({"quant_method":"gptq","bits":4,"is_marlin_format":true})", "is_marlin_format true"},
      {R"({"quant_method":"awq","bits":4,"version":"gemv"})", "version 'gemv' is not supported"},
      {R"({"quant_method":"fp8","fmt":"e5m2"})", "fmt 'e5m2' is not supported"},
      {R"({"quant_method":"fp8","weight_block_size":[128]})", "weight_block_size is not a list of two sizes"},
      {R"({"quant_method":"fp8","weight_block_size":[0,128]})", "outside 1.."},
      {R"({"quant_method":"compressed-tensors","format":"marlin-24"})", "format 'marlin-24' is not supported"},
      {R"({"quant_method":"compressed-tensors","config_groups":{"a":{"weights":{"num_bits":4,"type":"float"}}}})",
       "num_bits 4 is not supported"},
      {R"({"quant_method":"compressed-tensors","sparsity_config":{"format":"sparse-24-bitmask"}})",
       "format 'sparse-24-bitmask' is not supported"}};
  for (const auto& [config, expected] : kCases) {
    EXPECT_NE(error(config).find(expected), std::string::npos) << config << ": " << error(config);
  }
}

// The same bytes with another config are other weights.
TEST_F(QuantizedFolder, TheConfigIsPartOfTheFingerprint) {
  const std::vector<Format> all = all_quantized_formats();
  make(*std::ranges::find(all, std::string("gptq"), &Format::name));
  const Key256 v1 = Weights(quantized(kGptq), {}).fingerprint();
  EXPECT_EQ(Weights(quantized(kGptq), {}).fingerprint(), v1);
  EXPECT_NE(Weights(quantized(kGptq2), {}).fingerprint(), v1);
}

// As gpt-oss has experts: pairs of numbers in a byte, one expert's matrix after the other.
TEST(Mxfp4Experts, OneExpertsRowsAreBlocks) {
  constexpr int kExperts = 3;
  constexpr int kRows = 5;
  constexpr int kCols = 64;
  std::string blocks;
  std::string scales;
  for (int i = 0; i < kExperts * kRows * kCols / 2; ++i) blocks.push_back(static_cast<char>(mix(7, i, 1)));
  for (int i = 0; i < kExperts * kRows * 2; ++i) scales.push_back(static_cast<char>(120 + mix(8, i, 1) % 10));
  WrittenTensors tensors;
  tensors["experts.down_proj_blocks"] = {"U8", {kExperts, kRows, 2, 16}, blocks};
  tensors["experts.down_proj_scales"] = {"U8", {kExperts, kRows, 2}, scales};
  const FindTensor find = [&](const std::string& name) -> std::optional<FileTensor> {
    const auto found = tensors.find(name);
    if (found == tensors.end()) return std::nullopt;
    return FileTensor{found->second.type, found->second.shape, std::as_bytes(std::span(found->second.bytes))};
  };
  const QuantizedTensors quantized(std::nullopt, "here");
  for (int expert = 0; expert < kExperts; ++expert) {
    const auto made = quantized.read({"experts.down_proj", kRows, kCols, expert, kExperts}, find);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->dtype, DType::kMXFP4);
    for (int r = 0; r < kRows; ++r) {
      float row[kCols];
      read_row({made->bytes, made->dtype, kRows, kCols}, r, row);
      for (int c = 0; c < kCols; ++c) {
        const size_t at = static_cast<size_t>((expert * kRows + r) * kCols + c);
        const int code = static_cast<unsigned char>(blocks[at / 2]) >> (at % 2 * 4) & 15;
        const int exponent = static_cast<unsigned char>(scales[at / 32]) - 127;
        const float size = std::ldexp(kE2m1[code & 7], exponent);
        ASSERT_EQ(row[c], code >= 8 ? -size : size) << expert << " " << r << " " << c;
      }
    }
  }
  EXPECT_FALSE(quantized.read({"experts.up_proj", kRows, kCols, 0, kExperts}, find));
  EXPECT_THROW(quantized.read({"experts.down_proj", kRows, 32, 0, kExperts}, find), Error);
  EXPECT_THROW(quantized.read({"experts.down_proj", kRows, kCols, 0, 2}, find), Error);
  tensors["experts.down_proj_scales"].bytes[0] = '\xff';
  EXPECT_THROW(quantized.read({"experts.down_proj", kRows, kCols, 0, kExperts}, find), Error);
  tensors.erase("experts.down_proj_scales");
  EXPECT_THROW(quantized.read({"experts.down_proj", kRows, kCols, 0, kExperts}, find), Error);
}

// gpt-oss as a hub has it: gates and ups of all experts in MXFP4, outputs by row, where the plain tensor has columns.
TEST_F(QuantizedFolder, ExpertsOfGptOssInMxfp4) {
  constexpr int kExperts = 4;
  constexpr int kOutputs = 32;  // gates and ups in turn
  const SafetensorsFile fixture(golden_dir("gpt_oss") / "model.safetensors");
  WrittenTensors plain;
  for (const auto& [name, tensor] : fixture.tensors) {
    plain[name] = {tensor.dtype, tensor.shape,
                   std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size())};
  }
  WrittenTensors coded = plain;
  for (const char* layer : {"0", "1"}) {
    const std::string name = std::string("model.layers.") + layer + ".mlp.experts.gate_up_proj";
    std::string blocks(kExperts * kOutputs * 16, '\0');
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<char>(mix(*layer, i, 1));
    const std::string scales(kExperts * kOutputs, '\x7b');  // 2^-4
    std::vector<float> values(static_cast<size_t>(kExperts) * 32 * kOutputs);
    for (size_t i = 0; i < values.size(); ++i) {  // [expert][output][input]
      const int code = static_cast<unsigned char>(blocks[i / 2]) >> (i % 2 * 4) & 15;
      const size_t expert = i / (kOutputs * 32);
      const size_t turned = expert * kOutputs * 32 + i % 32 * kOutputs + i / 32 % kOutputs;
      values[turned] = (code >= 8 ? -kE2m1[code & 7] : kE2m1[code & 7]) / 16;
    }
    plain[name] = {"F32", {kExperts, 32, kOutputs}, bytes_of(values)};
    coded.erase(name);
    coded[name + "_blocks"] = {"U8", {kExperts, kOutputs, 1, 16}, blocks};
    coded[name + "_scales"] = {"U8", {kExperts, kOutputs, 1}, scales};
  }
  std::ifstream stream(golden_dir("gpt_oss") / "config.json");
  const std::string config((std::istreambuf_iterator<char>(stream)), {});
  write_model(path_ / "plain", plain, config);
  write_model(path_ / "coded", coded, R"({"quantization_config":{"quant_method":"mxfp4"},)" + config.substr(1));
  for (const char* device : {"ref", "cpu"}) {
    const BackendOptions exact{device, 2, "auto", ActivationPrecision::kF32};
    EXPECT_EQ(logits(path_ / "coded", exact), logits(path_ / "plain", exact)) << device;
    EXPECT_LT(relative_error(logits(path_ / "coded", {device, 2, "auto"}), logits(path_ / "plain", exact)), 0.05);
  }
}

}  // namespace
}  // namespace kvasir::testing
