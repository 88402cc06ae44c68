// The fields of a message of protocol buffers, one after the other.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvasir {

struct ProtobufField {
  std::uint32_t number = 0;
  enum class Kind : std::uint8_t { kInteger, kFixed32, kFixed64, kBytes } kind = Kind::kInteger;
  std::uint64_t value = 0;  // of all but kBytes
  std::string_view bytes;   // of kBytes, a part of the message

  // The value of the kind that a field should have. Throws Error where it has another.
  std::uint64_t integer(const std::string& where) const;
  bool flag(const std::string& where) const { return integer(where) != 0; }
  float number32(const std::string& where) const;
  std::string_view text(const std::string& where) const;
};

class ProtobufReader {
 public:
  // The message and `where` must outlive the reader.
  ProtobufReader(std::string_view message, const std::string& where) : rest_(message), where_(where) {}

  // The next field; nullopt at the end. Throws Error where the message is damaged. Groups, which are no longer
  // written, are damage.
  std::optional<ProtobufField> next();

 private:
  std::uint64_t varint();
  std::uint64_t fixed(size_t bytes);
  [[noreturn]] void fail() const;

  std::string_view rest_;
  const std::string& where_;
};

}  // namespace kvasir
