#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/chat.h"

namespace kvasir::testing {
namespace {

TEST(ChatSettings, SetChangesOneSetting) {
  ChatSettings settings;
  apply_setting("temp 0.25", settings);
  apply_setting("top-k 7", settings);
  apply_setting("top_p 0.5", settings);
  apply_setting("seed 42", settings);
  apply_setting("predict 12", settings);
  apply_setting("system You are a fox.", settings);
  EXPECT_EQ(settings.generate.temperature, 0.25F);
  EXPECT_EQ(settings.generate.top_k, 7);
  EXPECT_EQ(settings.generate.top_p, 0.5F);
  EXPECT_EQ(settings.generate.seed, 42U);
  EXPECT_EQ(settings.generate.max_tokens, 12);
  EXPECT_EQ(settings.system, "You are a fox.");
}

TEST(ChatSettings, ABadValueChangesNothing) {
  ChatSettings settings;
  settings.generate.top_k = 3;
  EXPECT_THROW(apply_setting("top-k many", settings), Error);
  EXPECT_THROW(apply_setting("top-k 3x", settings), Error);
  EXPECT_THROW(apply_setting("colour red", settings), Error);
  EXPECT_THROW(apply_setting("", settings), Error);
  EXPECT_EQ(settings.generate.top_k, 3);
}

}  // namespace
}  // namespace kvasir::testing
