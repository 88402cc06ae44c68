// A GGUF file as a whole model: its tokenizer, its chat template and its answers are those of the folder it came
// from.
#include "api/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kvasir/kvasir.h"
#include "model/convert.h"

namespace kvasir::testing {
namespace {

const std::filesystem::path kTales = KVASIR_SOURCE_DIR "/models/tales";

class GgufTokenizer : public ::testing::Test {
 protected:
  GgufTokenizer() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~GgufTokenizer() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path convert(const std::filesystem::path& from, const std::string& name, DType type) {
    convert_to_gguf(from, folder_ / name, gguf_tokenizer_keys(from, load_config(from)), {type, {}});
    return folder_ / name;
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvasir_gguf_tokenizer_" + std::to_string(::getpid()));
};

TEST_F(GgufTokenizer, TheFileAnswersAsTheFolderDoes) {
  LlmOptions options;
  options.model = kTales.string();
  GenerateOptions greedy;
  greedy.max_tokens = 24;
  greedy.temperature = 0;
  const Answer want = Llm(options).generate("Once upon a time", greedy);
  options.model = convert(kTales, "tales.gguf", DType::kBF16).string();
  const Answer got = Llm(options).generate("Once upon a time", greedy);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.prompt_tokens, want.prompt_tokens);
  const ModelSpec config = load_config(options.model);
  EXPECT_EQ(config.eos, load_config(kTales).eos);
  EXPECT_EQ(config.bos, load_config(kTales).bos);
  EXPECT_EQ(load_tokenizer(options.model).chat_template(), Tokenizer::load(kTales).chat_template());
}

TEST_F(GgufTokenizer, ASecondConversionKeepsIt) {
  const auto first = convert(kTales, "first.gguf", DType::kQ8_0);
  const auto second = convert(first, "second.gguf", DType::kF32);
  const GgufVocab a = read_gguf_vocab(GgufModel(first));
  const GgufVocab b = read_gguf_vocab(GgufModel(second));
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.token_type, b.token_type);
  EXPECT_EQ(a.merges, b.merges);
  EXPECT_EQ(a.pre, b.pre);
  EXPECT_EQ(a.add_bos_token, b.add_bos_token);
  EXPECT_EQ(a.bos_token_id, b.bos_token_id);
  EXPECT_EQ(load_config(second).eos, load_config(first).eos);
  EXPECT_EQ(load_config(second).dtype, DType::kF32);
}

TEST_F(GgufTokenizer, AFileWithoutOneSaysSo) {
  const std::filesystem::path bare = KVASIR_SOURCE_DIR "/tests/model/fixtures/gqa";
  const auto file = convert(bare, "bare.gguf", DType::kF16);
  try {
    load_tokenizer(file);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the file has no tokenizer"), std::string::npos) << error.what();
  }
  EXPECT_EQ(gguf_tokenizer_keys(file, load_config(file)).size(), 1U);
}

}  // namespace
}  // namespace kvasir::testing
