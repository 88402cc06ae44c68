// The GGUF container: what a good file holds, and each defect a clear error, never a crash.
#include "model/gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "base/error.h"

namespace kvasir {
namespace {

// A file byte by byte, by the format's own rules and none of our code.
struct Bytes {
  std::vector<std::byte> data;

  template <class T>
  Bytes& put(T value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    data.insert(data.end(), from, from + sizeof value);
    return *this;
  }
  Bytes& u32(std::uint32_t value) { return put(value); }
  Bytes& u64(std::uint64_t value) { return put(value); }
  Bytes& text(std::string_view value) {
    u64(value.size());
    const auto* from = reinterpret_cast<const std::byte*>(value.data());
    data.insert(data.end(), from, from + value.size());
    return *this;
  }
  Bytes& header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    return u32(0x46554747).u32(version).u64(tensors).u64(keys);
  }
  Bytes& tensor(std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type, std::uint64_t offset) {
    text(name).u32(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) u64(dim);
    return u32(type).u64(offset);
  }
  Bytes& pad(size_t alignment) {
    while (data.size() % alignment != 0) data.push_back(std::byte{0});
    return *this;
  }
  Bytes& zeros(size_t count) {
    data.resize(data.size() + count);
    return *this;
  }
};

std::string error_of_file(const std::vector<std::byte>& file) {
  try {
    parse_gguf(file, "m.gguf");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_error(const Bytes& file, std::string_view part) {
  const std::string error = error_of_file(file.data);
  EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_TRUE(error.starts_with("m.gguf: ")) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(Gguf, ReadsEveryKindOfValue) {
  Bytes file;
  file.header(0, 15);
  file.text("u8").u32(0).put<std::uint8_t>(200);
  file.text("i8").u32(1).put<std::int8_t>(-3);
  file.text("u16").u32(2).put<std::uint16_t>(60000);
  file.text("i16").u32(3).put<std::int16_t>(-300);
  file.text("u32").u32(4).u32(4'000'000'000);
  file.text("i32").u32(5).put<std::int32_t>(-70000);
  file.text("f32").u32(6).put(0.5F);
  file.text("bool").u32(7).put<std::uint8_t>(1);
  file.text("string").u32(8).text("hello");
  file.text("u64").u32(10).u64(1ULL << 40);
  file.text("i64").u32(11).put<std::int64_t>(-5);
  file.text("f64").u32(12).put(0.1);
  file.text("strings").u32(9).u32(8).u64(2).text("a").text("");
  file.text("numbers").u32(9).u32(5).u64(3).put(1).put(-2).put(3);
  file.text("nested").u32(9).u32(9).u64(2).u32(0).u64(1).put<std::uint8_t>(7).u32(8).u64(1).text("x");
  const GgufContent content = parse_gguf(file.data, "m.gguf");
  const auto& m = content.metadata;
  EXPECT_EQ(std::get<std::uint64_t>(m.at("u8")), 200U);
  EXPECT_EQ(std::get<std::int64_t>(m.at("i8")), -3);
  EXPECT_EQ(std::get<std::uint64_t>(m.at("u16")), 60000U);
  EXPECT_EQ(std::get<std::int64_t>(m.at("i16")), -300);
  EXPECT_EQ(std::get<std::uint64_t>(m.at("u32")), 4'000'000'000U);
  EXPECT_EQ(std::get<std::int64_t>(m.at("i32")), -70000);
  EXPECT_EQ(std::get<double>(m.at("f32")), 0.5);
  EXPECT_EQ(std::get<bool>(m.at("bool")), true);
  EXPECT_EQ(std::get<std::string_view>(m.at("string")), "hello");
  EXPECT_EQ(std::get<std::uint64_t>(m.at("u64")), 1ULL << 40);
  EXPECT_EQ(std::get<std::int64_t>(m.at("i64")), -5);
  EXPECT_EQ(std::get<double>(m.at("f64")), 0.1);
  EXPECT_EQ(std::get<GgufStrings>(m.at("strings")), (GgufStrings{"a", ""}));
  const auto& numbers = std::get<GgufNumbers>(m.at("numbers"));
  ASSERT_EQ(numbers.size(), 3U);
  EXPECT_EQ(numbers.at(1), -2.0);
  EXPECT_TRUE(std::holds_alternative<GgufNested>(m.at("nested")));
}

TEST(Gguf, FindsTensorsWhereTheyLie) {
  for (const std::uint32_t version : {2U, 3U}) {
    Bytes file;
    file.header(3, 1, version).text("general.alignment").u32(4).u32(64);
    file.tensor("a", {64, 2}, 2, 0).tensor("b", {3}, 0, 128).tensor("c", {8}, 29, 192).pad(64).zeros(256);
    const size_t begin = file.data.size() - 256;
    file.data[begin + 128] = std::byte{42};
    const GgufContent content = parse_gguf(file.data, "m.gguf");
    const GgufTensor& a = content.tensors.at("a");
    EXPECT_EQ(a.dtype, DType::kQ4_0);
    EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 64}));  // rows first
    EXPECT_EQ(a.bytes.size(), 72U);
    EXPECT_EQ(content.tensors.at("b").bytes.data(), file.data.data() + begin + 128);
    EXPECT_EQ(content.tensors.at("b").bytes[0], std::byte{42});
    EXPECT_EQ(content.tensors.at("c").dtype, std::nullopt);  // iq1_m: known by name alone
    EXPECT_EQ(gguf_type_name(content.tensors.at("c").type), "iq1_m");
  }
}

TEST(Gguf, EveryTypeHasItsNumber) {
  for (const WeightType& type : kWeightTypes) {
    if (!in_gguf(type.type)) continue;
    EXPECT_EQ(gguf_type_name(gguf_number_of(type.type)), type.name);
  }
  EXPECT_EQ(gguf_number_of(DType::kQ4_K), 12U);
  EXPECT_EQ(gguf_number_of(DType::kBF16), 30U);
  EXPECT_EQ(gguf_type_name(999), "number 999");
}

TEST(Gguf, EachDefectOfTheHeadHasItsOwnError) {
  expect_error(Bytes().u32(0x46554747), "claims 4 bytes where 0 are left");
  expect_error(Bytes().u32(0x4747).u32(3).zeros(16), "does not begin with GGUF");
  expect_error(Bytes().header(0, 0, 1), "version 1");
  expect_error(Bytes().header(0, 0, 0x03000000), "big endian");
  expect_error(Bytes().header(1ULL << 60, 0), "claims 1152921504606846976 tensors");
  expect_error(Bytes().header(0, ~0ULL), "keys in a file");
  expect_error(Bytes().header(0, 1).text("").u32(0).zeros(8), "a key has 0 characters");
  expect_error(Bytes().header(0, 1).text(std::string(2000, 'k')).u32(0).zeros(8), "a key has 2000 characters");
  expect_error(Bytes().header(0, 1).text("k").u32(13).zeros(8), "unknown type 13");
  expect_error(Bytes().header(0, 1).text("k").u32(8).u64(~0ULL).zeros(8), "k claims");
  expect_error(Bytes().header(0, 1).text("k").u32(9).u32(0).u64(~0ULL).zeros(8), "claims 18446744073709551615 el");
  expect_error(Bytes().header(0, 1).text("k").u32(9).u32(8).u64(1ULL << 32).zeros(8), "claims 4294967296 elements");
  expect_error(Bytes().header(0, 1).text("k").u32(9).u32(77).u64(1).zeros(8), "unknown type 77");
  expect_error(Bytes().header(0, 2).text("k").u32(0).zeros(1).text("k").u32(0).zeros(9), "'k' is there twice");
  Bytes nested;
  nested.header(0, 1).text("k").u32(9);
  for (int i = 0; i < 6; ++i) nested.u32(9).u64(1);
  nested.zeros(32);
  expect_error(nested, "nests arrays");
}

TEST(Gguf, EachDefectOfATensorHasItsOwnError) {
  const auto with = [](const std::function<void(Bytes&)>& tensors, std::uint64_t count = 1) {
    Bytes file;
    file.header(count, 0);
    tensors(file);
    return file.pad(32).zeros(64);
  };
  expect_error(with([](Bytes& f) { f.tensor("", {1}, 0, 0); }), "name has 0 characters");
  expect_error(with([](Bytes& f) { f.tensor("t", {}, 0, 0); }), "has 0 dimensions");
  expect_error(with([](Bytes& f) { f.tensor("t", {1, 1, 1, 1, 1}, 0, 0); }), "has 5 dimensions");
  expect_error(with([](Bytes& f) { f.tensor("t", {0}, 0, 0); }), "impossible shape [0]");
  expect_error(with([](Bytes& f) { f.tensor("t", {1ULL << 63}, 0, 0); }), "impossible shape");
  expect_error(with([](Bytes& f) { f.tensor("t", {1ULL << 40, 1ULL << 40}, 0, 0); }), "impossible shape");
  expect_error(with([](Bytes& f) { f.tensor("t", {(1ULL << 62) + 1}, 0, 0); }),
               "impossible shape");  // bytes overflow
  expect_error(with([](Bytes& f) { f.tensor("t", {48}, 2, 0); }), "rows of 48 numbers, and q4_0 takes blocks of 32");
  expect_error(with([](Bytes& f) { f.tensor("t", {17}, 0, 0); }), "takes 68 bytes at 0, outside");
  expect_error(with([](Bytes& f) { f.tensor("t", {1}, 0, 96); }), "outside the file's 64 bytes");
  expect_error(with([](Bytes& f) { f.tensor("t", {1}, 0, ~0ULL - 31); }), "outside the file's 64 bytes");
  expect_error(with([](Bytes& f) { f.tensor("t", {1}, 0, 8); }), "no multiple of 32");
  expect_error(with([](Bytes& f) { f.tensor("a", {9}, 0, 0).tensor("b", {1}, 0, 32); }, 2), "'b' overlaps 'a'");
  expect_error(with([](Bytes& f) { f.tensor("a", {1}, 0, 0).tensor("a", {1}, 0, 32); }, 2), "'a' is there twice");
  Bytes odd;
  odd.header(0, 1).text("general.alignment").u32(4).u32(24);
  expect_error(odd, "not a power of two");
}

TEST(Gguf, EveryCutIsAnError) {
  Bytes file;
  file.header(1, 1).text("k").u32(9).u32(8).u64(2).text("abc").text("d");
  file.tensor("t", {16}, 0, 0).pad(32).zeros(64);
  ASSERT_EQ(error_of_file(file.data), "no error");
  for (size_t size = 0; size < file.data.size(); ++size) {
    EXPECT_NE(error_of_file({file.data.begin(), file.data.begin() + static_cast<std::ptrdiff_t>(size)}), "no error")
        << size;
  }
}

}  // namespace
}  // namespace kvasir
