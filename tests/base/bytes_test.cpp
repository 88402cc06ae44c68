#include "base/bytes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvasir {
namespace {

TEST(Bytes, ParsesSizesAsPeopleWriteThem) {
  const std::vector<std::pair<const char*, std::uint64_t>> sizes{
      {"4096", 4096},
      {"1", 1},
      {"12b", 12},
      {"12 B", 12},
      {"24GB", 24'000'000'000},
      {"24gb", 24'000'000'000},
      {" 24 GB ", 24'000'000'000},
      {"1kB", 1000},
      {"3 MB", 3'000'000},
      {"2TB", 2'000'000'000'000},
      {"1KiB", 1024},
      {"512 MiB", 512ULL << 20},
      {"1GiB", 1ULL << 30},
      {"1TiB", 1ULL << 40},
      {"4k", 4096},
      {"4K", 4096},
      {"1.5g", 3ULL << 29},
      {"2m", 2ULL << 20},
      {"1t", 1ULL << 40},
      {"1Ki", 1024},
      {"1Mi", 1ULL << 20},
      {"1Gi", 1ULL << 30},
      {"1Ti", 1ULL << 40},
      {"0.5kb", 500},
      {"1e3", 1000},
  };
  for (const auto& [text, bytes] : sizes) EXPECT_EQ(parse_bytes(text, "--kv"), bytes) << text;
}

TEST(Bytes, RefusesWhatIsNotASize) {
  for (const char* text : {"", " ", "GB", "-1GB", "0", "0.1", "1XB", "1GBB", "GB1", "1,5GB", "1 2GB", "0x10", "nan",
                           "inf", "1e30", "1000000TB", "--kv", "5 G B"}) {
    EXPECT_THROW(parse_bytes(text, "--kv"), Error) << text;
  }
}

TEST(Bytes, NothingIsASizeWhereItMakesSense) {
  EXPECT_EQ(parse_bytes("0", "--swap-memory", 0), 0U);
  EXPECT_EQ(parse_bytes("0MiB", "--swap-memory", 0), 0U);
  EXPECT_THROW(parse_bytes("-1", "--swap-memory", 0), Error);
  EXPECT_THROW(parse_bytes("", "--swap-memory", 0), Error);
}

TEST(Bytes, TheErrorNamesTheFlagAndTheText) {
  try {
    parse_bytes("much", "--kv-memory");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    EXPECT_STREQ(error.what(), "--kv-memory: 'much' is not a size; write it like 512MiB, 24GB or 4g");
  }
}

TEST(Bytes, FormatsThreeFigures) {
  const std::vector<std::pair<std::uint64_t, const char*>> sizes{
      {0, "0 B"},
      {12, "12 B"},
      {999, "999 B"},
      {1000, "1.00 kB"},
      {1004, "1.00 kB"},
      {1006, "1.01 kB"},
      {9'994, "9.99 kB"},
      {9'996, "10.0 kB"},
      {99'940, "99.9 kB"},
      {99'960, "100 kB"},
      {131'072, "131 kB"},
      {999'499, "999 kB"},
      {999'500, "1.00 MB"},
      {4'294'967'296, "4.29 GB"},
      {24'000'000'000, "24.0 GB"},
      {1'000'000'000'000, "1.00 TB"},
      {5'000'000'000'000'000, "5000 TB"},
  };
  for (const auto& [bytes, text] : sizes) EXPECT_EQ(format_bytes(bytes), text) << bytes;
}

TEST(Bytes, CountsHaveCommas) {
  const std::vector<std::pair<std::uint64_t, const char*>> counts{
      {0, "0"},
      {7, "7"},
      {999, "999"},
      {1000, "1,000"},
      {131'072, "131,072"},
      {1'000'000, "1,000,000"},
      {18'446'744'073'709'551'615ULL, "18,446,744,073,709,551,615"}};
  for (const auto& [count, text] : counts) EXPECT_EQ(format_count(count), text);
}

}  // namespace
}  // namespace kvasir
