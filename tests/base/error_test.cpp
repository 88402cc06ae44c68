#include "base/error.h"

#include <gtest/gtest.h>

namespace kvasir {
namespace {

std::string line_of(const Error::Parts& parts) { return Error(Error::Kind::kBadInput, parts).what(); }

TEST(Error, ReadsWhereWhatAndWhatToDoOnOneLine) {
  EXPECT_EQ(line_of({"the file is empty", "model.safetensors", "download it again"}),
            "model.safetensors: the file is empty; download it again");
  EXPECT_EQ(line_of({"the file is empty", "", "download it again"}), "the file is empty; download it again");
  EXPECT_EQ(line_of({"the file is empty", "x", ""}), "x: the file is empty");
  EXPECT_EQ(line_of({"the file is empty", "", ""}), "the file is empty");
}

TEST(Error, NoControlCharacterReachesTheTerminal) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    const std::string line = line_of({"a" + text + "b", text, text});
    for (const char c : line) {
      EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7f) << byte;
    }
  }
  EXPECT_EQ(line_of({"a\nb\x1b[2J", "x\r", ""}), "x\\x0d: a\\x0ab\\x1b[2J");
}

TEST(Error, KeepsUnicode) { EXPECT_EQ(line_of({"der Schlüssel «ключ»", "", ""}), "der Schlüssel «ключ»"); }

TEST(Error, CutsWhatAHostileFileMadeLong) {
  const std::string line = line_of({std::string(1'000'000, 'x'), std::string(1'000'000, 'y'), ""});
  EXPECT_LT(line.size(), 2000U);
  EXPECT_NE(line.find("…"), std::string::npos);
}

TEST(Error, KeepsItsPartsAsTheyWere) {
  const Error error(Error::Kind::kSystem, {"a\n", "b", "c"});
  EXPECT_EQ(error.parts().what, "a\n");
  EXPECT_EQ(error.parts().where, "b");
  EXPECT_EQ(error.parts().fix, "c");
}

template <class Fail>
Error::Kind kind_thrown(Fail fail) {
  try {
    fail("what", "where", "fix");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "where: what; fix");
    return error.kind();
  }
  return Error::Kind::kCapacity;
}

TEST(Error, TheThreeWaysToThrowHaveTheirKinds) {
  EXPECT_EQ(kind_thrown(fail_input), Error::Kind::kBadInput);
  EXPECT_EQ(kind_thrown(fail_usage), Error::Kind::kUsage);
  EXPECT_EQ(kind_thrown(fail_system), Error::Kind::kSystem);
}

}  // namespace
}  // namespace kvasir
