#include "text/protobuf.h"

#include "base/error.h"

namespace kvasir {
namespace {

[[noreturn]] void fail_damaged(const std::string& where) {
  fail_input("the file is no model of SentencePiece, or damaged", where, "download it again");
}

}  // namespace

void ProtobufReader::fail() const { fail_damaged(where_); }

std::uint64_t ProtobufField::integer(const std::string& where) const {
  if (kind != Kind::kInteger) fail_damaged(where);
  return value;
}

float ProtobufField::number32(const std::string& where) const {
  if (kind != Kind::kFixed32) fail_damaged(where);
  return std::bit_cast<float>(static_cast<std::uint32_t>(value));
}

std::string_view ProtobufField::text(const std::string& where) const {
  if (kind != Kind::kBytes) fail_damaged(where);
  return bytes;
}

std::uint64_t ProtobufReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) fail();
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  fail();
}

std::uint64_t ProtobufReader::fixed(size_t bytes) {
  if (rest_.size() < bytes) fail();
  std::uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
  rest_.remove_prefix(bytes);
  return value;
}

std::optional<ProtobufField> ProtobufReader::next() {
  using Kind = ProtobufField::Kind;
  if (rest_.empty()) return std::nullopt;
  const std::uint64_t tag = varint();
  if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX) fail();
  ProtobufField field;
  field.number = static_cast<std::uint32_t>(tag >> 3);
  switch (tag & 7) {
    case 0:
      field.kind = Kind::kInteger;
      field.value = varint();
      return field;
    case 1:
      field.kind = Kind::kFixed64;
      field.value = fixed(8);
      return field;
    case 2: {
      const std::uint64_t size = varint();
      if (size > rest_.size()) fail();
      field.kind = Kind::kBytes;
      field.bytes = rest_.substr(0, size);
      rest_.remove_prefix(size);
      return field;
    }
    case 5:
      field.kind = Kind::kFixed32;
      field.value = fixed(4);
      return field;
    default:
      fail();
  }
}

}  // namespace kvasir
