// Files of public beginnings: their tokens begin the prompts they are meant for.
#include "api/public_text.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"

namespace kvasir::testing {
namespace {

class PublicTextTest : public ::testing::Test {
 protected:
  PublicTextTest() { std::filesystem::create_directories(folder_); }
  ~PublicTextTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  std::string refusal(const std::string& name, const std::string& text) const {
    try {
      read_public_text(write(name, text), tokenizer_, &chat_);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvasir_public_" + std::to_string(::getpid()));
  Tokenizer tokenizer_ = Tokenizer::load(KVASIR_SOURCE_DIR "/models/tales-draft");
  ChatTemplate chat_{tokenizer_.chat_template().value(), "template"};
};

TEST_F(PublicTextTest, PlainTextIsADocument) {
  const auto tokens = read_public_text(write("a.txt", "Once upon a time\n"), tokenizer_, nullptr);
  EXPECT_EQ(tokens, tokenizer_.encode_document("Once upon a time\n", Tokenizer::Specials::kParse));
}

TEST_F(PublicTextTest, MessagesBeginEveryChatThatBeginsWithThem) {
  const std::string file = R"({"messages": [{"role": "system", "content": "You tell tales of foxes."}]})";
  const auto tokens = read_public_text(write("a.json", file), tokenizer_, &chat_);
  const std::vector<ChatMessage> chat{{"system", "You tell tales of foxes."}, {"user", "Begin."}};
  RenderOptions options;
  options.bos_token = tokenizer_.bos_token().value_or("");
  options.eos_token = tokenizer_.eos_token().value_or("");
  const auto whole = encode_chat(tokenizer_, chat_.render(chat, options));
  ASSERT_GT(tokens.size(), 4U);
  ASSERT_LT(tokens.size(), whole.size());
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), whole.begin()));
}

TEST_F(PublicTextTest, WhatIsNoBeginningIsNamed) {
  EXPECT_NE(refusal("a.txt", "").find("empty"), std::string::npos);
  EXPECT_NE(refusal("a.json", "{").find("not JSON"), std::string::npos);
  for (const char* text : {"[]", "{}", R"({"messages": []})", R"({"messages": 1})", R"({"messages": [1]})",
                           R"({"messages": [{"role": "system"}]})", R"({"messages": [{"role": 1, "content": ""}]})",
                           R"({"messages": [{"role": "system", "content": ""}], "model": "x"})"})
    EXPECT_NE(refusal("a.json", text).find("a.json"), std::string::npos) << text;
  EXPECT_THROW(read_public_text(folder_ / "none", tokenizer_, &chat_), Error);
  EXPECT_THROW(
      read_public_text(write("b.json", R"({"messages": [{"role": "user", "content": "x"}]})"), tokenizer_, nullptr),
      Error);
}

}  // namespace
}  // namespace kvasir::testing
