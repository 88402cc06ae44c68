#include "base/mmap_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/error.h"

namespace kvasir {
namespace {

class MmapFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder = std::filesystem::path(::testing::TempDir()) / ("kvasir_" + std::to_string(::getpid()) + test->name());
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::filesystem::path file(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }

  std::filesystem::path folder;
};

void expect_refused(const std::filesystem::path& path, const std::string& why) {
  try {
    const MmapFile file(path);
    FAIL() << path;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kBadInput);
    EXPECT_EQ(error.parts().where, path.string());
    EXPECT_NE(error.parts().what.find(why), std::string::npos) << error.what();
  }
}

TEST_F(MmapFileTest, ReadsTheBytesOfTheFile) {
  const std::string text("a\0b\n\xff", 5);
  const MmapFile mapped(file("f", text));
  EXPECT_EQ(mapped.text(), text);
  EXPECT_EQ(mapped.bytes().size(), 5U);
  EXPECT_EQ(mapped.bytes()[4], std::byte{0xff});
}

TEST_F(MmapFileTest, AMissingFileIsRefused) { expect_refused(folder / "none", "cannot be opened"); }

TEST_F(MmapFileTest, AnEmptyFileIsRefused) { expect_refused(file("empty", ""), "empty"); }

TEST_F(MmapFileTest, ADirectoryIsRefused) { expect_refused(folder, "not a regular file"); }

TEST_F(MmapFileTest, ADeviceIsRefused) { expect_refused("/dev/null", "not a regular file"); }

TEST_F(MmapFileTest, MovesWithItsBytes) {
  MmapFile first(file("one", "one"));
  MmapFile second(file("two", "two!"));
  MmapFile third = std::move(first);
  EXPECT_EQ(third.text(), "one");
  EXPECT_TRUE(first.bytes().empty());
  third = std::move(second);
  EXPECT_EQ(third.text(), "two!");
}

TEST_F(MmapFileTest, OutlivesTheName) {
  const auto path = file("f", "still here");
  const MmapFile mapped(path);
  std::filesystem::remove(path);
  EXPECT_EQ(mapped.text(), "still here");
}

TEST_F(MmapFileTest, WhatWasDoneWithCanBeReadAgain) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += static_cast<char>(i * 7);
  const MmapFile mapped(file("f", text));
  for (const auto& [first, count] : {std::pair<size_t, size_t>{0, 100'000}, {5'000, 50'000}, {1, 10}, {99'999, 1}}) {
    mapped.done_with(mapped.bytes().subspan(first, count));
    EXPECT_TRUE(mapped.text() == text);
  }
}

}  // namespace
}  // namespace kvasir
