#include "backend/cpu/weight_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <utility>
#include <vector>

namespace kvasir::cpu {
namespace {

// Of this process, in pages.
std::int64_t mapped_pages() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

TEST(WeightMemory, PartsAreZeroAlignedAndApart) {
  WeightMemory memory;
  std::mt19937 random(1);
  std::vector<Buffer> parts;
  for (int i = 0; i < 200; ++i) {
    const size_t bytes = 1 + random() % (size_t{3} << 20);
    Buffer part = memory.allocate(bytes);
    ASSERT_EQ(part.bytes(), bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(part.as<char>()) % 64, 0U);
    // The first, the last and some between, since all of it would take seconds.
    for (size_t at = 0; at < bytes; at += 997) ASSERT_EQ(part.as<char>()[at], 0);
    ASSERT_EQ(part.as<char>()[bytes - 1], 0);
    std::memset(part.as<char>(), i % 251 + 1, bytes);
    parts.push_back(std::move(part));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto want = static_cast<char>(i % 251 + 1);
    const char* data = parts[i].as<char>();
    ASSERT_TRUE(std::all_of(data, data + parts[i].bytes(), [want](char c) { return c == want; })) << i;
  }
}

TEST(WeightMemory, NeighboursShareAChunkAndLargeOnesHaveTheirOwn) {
  WeightMemory memory;
  const Buffer a = memory.allocate(1000);
  const Buffer b = memory.allocate(1 << 20);
  const Buffer large = memory.allocate(size_t{40} << 20);
  const Buffer c = memory.allocate(10);
  EXPECT_EQ(b.as<char>() - a.as<char>(), 1024);
  EXPECT_EQ(c.as<char>() - b.as<char>(), 1 << 20);
  EXPECT_EQ(large.as<char>()[(size_t{40} << 20) - 1], 0);
}

// In whatever order they go, and after the memory they are of.
TEST(WeightMemory, ChunksGoWithTheirLastPart) {
  const std::int64_t before = mapped_pages();
  std::vector<Buffer> parts;
  {
    WeightMemory memory;
    for (int i = 0; i < 300; ++i) parts.push_back(memory.allocate(1 << 20));
  }
  EXPECT_GT(mapped_pages(), before + 70'000);  // 300 MiB
  parts[150].as<char>()[5] = 7;
  std::mt19937 random(2);
  std::ranges::shuffle(parts, random);
  while (parts.size() > 1) parts.pop_back();
  EXPECT_LT(mapped_pages(), before + 20'000);  // the chunk of the one that is left
  parts.clear();
  EXPECT_LT(mapped_pages(), before + 3'000);
}

}  // namespace
}  // namespace kvasir::cpu
