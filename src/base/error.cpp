#include "kvasir/error.h"

#include <fmt/format.h>

namespace kvasir {
namespace {

// Names and texts in an error may come from a hostile file: keep them on one line and the terminal unharmed.
std::string printable(const std::string& text) {
  constexpr size_t kLongest = 600;
  std::string out;
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > kLongest) out += "…";
  return out;
}

std::string one_line(const Error::Parts& parts) {
  std::string line;
  if (!parts.where.empty()) line += printable(parts.where) + ": ";
  line += printable(parts.what);
  if (!parts.fix.empty()) line += "; " + printable(parts.fix);
  return line;
}

}  // namespace

Error::Error(Kind kind, Parts parts) : std::runtime_error(one_line(parts)), kind_(kind), parts_(std::move(parts)) {}

void fail_input(std::string what, std::string where, std::string fix) {
  throw Error(Error::Kind::kBadInput, {std::move(what), std::move(where), std::move(fix)});
}

void fail_usage(std::string what, std::string where, std::string fix) {
  throw Error(Error::Kind::kUsage, {std::move(what), std::move(where), std::move(fix)});
}

void fail_system(std::string what, std::string where, std::string fix) {
  throw Error(Error::Kind::kSystem, {std::move(what), std::move(where), std::move(fix)});
}

}  // namespace kvasir
