// GGUF of layers with states that say less than a folder: what multiplies lies in weights, and steps have no limits.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "backend/make_backend.h"
#include "base/error.h"
#include "model/convert.h"
#include "model/gguf/gguf_description.h"
#include "support/fixtures.h"
#include "support/forward.h"

namespace kvasir::testing {
namespace {

std::string error_of_description(const ModelSpec& spec) {
  try {
    describe_as_gguf(spec, "here");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A golden model whose config multiplies nothing and limits nothing.
class PlainFolder {
 public:
  explicit PlainFolder(const std::string& golden)
      : path_(std::filesystem::temp_directory_path() / ("kvasir_plain_" + std::to_string(::getpid()) + golden)) {
    std::filesystem::create_directories(path_);
    std::filesystem::copy(golden_dir(golden) / "model.safetensors", path_ / "model.safetensors");
    std::stringstream text;
    text << std::ifstream(golden_dir(golden) / "config.json").rdbuf();
    const std::string one = std::regex_replace(text.str(), std::regex("(multiplier\"): [0-9.]+"), "$1: 1.0");
    std::ofstream(path_ / "config.json")
        << std::regex_replace(one, std::regex("(_multipliers|time_step_limit)\": \\[[^\\]]*\\]"), "$1\": null");
  }
  ~PlainFolder() { std::filesystem::remove_all(path_); }
  PlainFolder(const PlainFolder&) = delete;
  PlainFolder& operator=(const PlainFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::vector<float> logits_of_model(const std::filesystem::path& path, Backend& backend) {
  const std::vector<TokenId> prompt{1, 5, 3, 0, 7, 7, 2, 11, 4, 18};
  return forward(*load_model(path, backend, {}), backend, prompt);
}

TEST(GgufHybrids, AttentionBesideAStateIsTheFoldersBitForBit) {
  for (const char* golden : {"falcon_h1", "falcon_h1_norm"}) {
    const PlainFolder folder(golden);
    const auto file = folder.path() / "m.gguf";
    convert_to_gguf(folder.path(), file, {}, {DType::kBF16, {}});
    const auto backend = make_backend({"cpu", 2, "auto"});
    std::filesystem::create_directories(folder.path() / "gguf");
    std::filesystem::rename(file, folder.path() / "gguf" / "m.gguf");
    EXPECT_EQ(logits_of_model(folder.path() / "gguf" / "m.gguf", *backend), logits_of_model(folder.path(), *backend))
        << golden;
  }
}

TEST(GgufHybrids, WhatFilesHaveNoWordsForIsRefused) {
  EXPECT_NE(error_of_description(load_config(golden_dir("falcon_h1"))).find("falcon-h1 cannot say"),
            std::string::npos);
  // Its files say one number of heads, for latents and states.
  EXPECT_NE(
      error_of_description(load_config(golden_dir("kimi_linear"))).find("kimi-linear cannot say what its states"),
      std::string::npos);
  ModelSpec limited = load_config(golden_dir("nemotron_h_latent"));
  EXPECT_NE(error_of_description(limited).find("nemotron_h_moe cannot say what its states are made of"),
            std::string::npos);
  for (LayerSpec& layer : limited.layers) layer.recurrent.least_step = 0;
  EXPECT_EQ(error_of_description(limited), "no error");  // what experts read, and all else
}

}  // namespace
}  // namespace kvasir::testing
