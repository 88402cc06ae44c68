// Damaged and hostile weight files: each a clear error, never a crash.
#include "model/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <span>

#include "backend/make_backend.h"
#include "base/error.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

std::vector<std::byte> file_of(const std::string& header, size_t data_bytes,
                               std::optional<std::uint64_t> claimed = {}) {
  const std::uint64_t size = claimed.value_or(header.size());
  std::vector<std::byte> out(sizeof size + header.size() + data_bytes);
  std::memcpy(out.data(), &size, sizeof size);
  std::memcpy(out.data() + sizeof size, header.data(), header.size());
  return out;
}

std::string error_of(const std::vector<std::byte>& file) {
  try {
    parse_safetensors(file, "w.safetensors");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Safetensors, ReadsAGoodFile) {
  const auto file = file_of(
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})",
      32);
  const TensorMap tensors = parse_safetensors(file, "w");
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors.at("a").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(tensors.at("b").bytes.size(), 8U);
}

TEST(Safetensors, EachDefectHasItsOwnError) {
  const auto with = [](const char* entry) { return error_of(file_of(std::string("{\"a\":") + entry + "}", 16)); };
  EXPECT_NE(error_of({}).find("shorter than a safetensors header"), std::string::npos);
  EXPECT_NE(error_of(file_of("{}", 0, 1'000'000)).find("header claims 1000000 bytes"), std::string::npos);
  EXPECT_NE(error_of(file_of("{}", 0, ~std::uint64_t{0})).find("header claims"), std::string::npos);
  EXPECT_NE(error_of(file_of("[1]", 0)).find("not a JSON object"), std::string::npos);
  EXPECT_NE(error_of(file_of("{\"a\":", 0)).find("not a JSON object"), std::string::npos);
  EXPECT_NE(with("3").find("has no dtype"), std::string::npos);
  EXPECT_NE(with(R"({"dtype":"F32"})").find("has no list shape"), std::string::npos);
  EXPECT_NE(with(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})").find("shape that is no size"),
            std::string::npos);
  EXPECT_NE(with(R"({"dtype":"F32","shape":[4],"data_offsets":[0,20]})").find("outside the file"), std::string::npos);
  EXPECT_NE(with(R"({"dtype":"F32","shape":[4],"data_offsets":[8,0]})").find("outside the file"), std::string::npos);
  EXPECT_NE(with(R"({"dtype":"F32","shape":[5],"data_offsets":[0,16]})").find("takes 16 bytes where"),
            std::string::npos);
  EXPECT_NE(
      with(R"({"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]})").find("impossible shape"),
      std::string::npos);
  const auto overlap = file_of(
      R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}})",
      16);
  EXPECT_NE(error_of(overlap).find("overlaps"), std::string::npos);
}

TEST(Safetensors, EveryTruncationOfARealFileIsAnError) {
  std::ifstream stream(golden_dir("gqa") / "golden.safetensors", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(stream)), {});
  for (size_t size = 0; size < whole.size(); size += size < 600 ? 1 : 997) {
    const auto part = std::as_bytes(std::span(whole).first(size));
    const std::vector<std::byte> cut(part.begin(), part.end());
    EXPECT_NE(error_of(cut), "no error") << size;
  }
}

TEST(Weights, NameTheTensorThatDoesNotFitTheConfig) {
  const auto backend = make_backend({"ref", 1, "auto"});
  ModelSpec config = load_config(golden_dir("gqa"));
  for (LayerSpec& layer : config.layers) layer.mlp.width += 1;
  try {
    make_decoder(config, Weights(golden_dir("gqa"), tensors_of(config)), *backend, {8, {}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find("mlp.gate_proj.weight' is [112, 64], and the config calls for [113, 64]"),
        std::string::npos)
        << error.what();
  }
}

TEST(Weights, ALayerThatIsMissingIsNamed) {
  const auto backend = make_backend({"ref", 1, "auto"});
  ModelSpec config = load_config(golden_dir("gqa"));
  config.layers.push_back(config.layers.back());
  try {
    make_decoder(config, Weights(golden_dir("gqa"), tensors_of(config)), *backend, {8, {}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("model.layers.2.input_layernorm.weight' is missing"), std::string::npos)
        << error.what();
  }
}

TEST(Weights, AShardThatLeadsElsewhereIsRefused) {
  const auto folder = std::filesystem::temp_directory_path() / ("kvasir_shard_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "model.safetensors.index.json") << R"({"weight_map":{"a":"../../etc/passwd"}})";
  EXPECT_THROW(Weights(folder, {}), Error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvasir::testing
