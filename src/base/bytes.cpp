#include "base/bytes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace kvasir {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr double kKi = 1024;
constexpr std::array<Unit, 18> kUnits{{{"", 1},
                                       {"b", 1},
                                       {"kb", 1e3},
                                       {"mb", 1e6},
                                       {"gb", 1e9},
                                       {"tb", 1e12},
                                       {"kib", kKi},
                                       {"mib", kKi* kKi},
                                       {"gib", kKi* kKi* kKi},
                                       {"tib", kKi* kKi* kKi* kKi},
                                       {"k", kKi},
                                       {"m", kKi* kKi},
                                       {"g", kKi* kKi* kKi},
                                       {"t", kKi* kKi* kKi* kKi},
                                       {"ki", kKi},
                                       {"mi", kKi* kKi},
                                       {"gi", kKi* kKi* kKi},
                                       {"ti", kKi* kKi* kKi* kKi}}};

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text, std::string_view flag, std::uint64_t least) {
  const std::string clean = lower(trim(text));
  double value = 0;
  const auto [end, status] = std::from_chars(clean.data(), clean.data() + clean.size(), value);
  const std::string_view unit = trim({end, static_cast<size_t>(clean.data() + clean.size() - end)});
  for (const Unit& known : kUnits) {
    if (status != std::errc{} || known.name != unit) continue;
    const double bytes = value * known.bytes;
    if (bytes >= static_cast<double>(least) && bytes < 1e18) return static_cast<std::uint64_t>(bytes);
  }
  fail_usage(fmt::format("'{}' is not a size", text), std::string(flag), "write it like 512MiB, 24GB or 4g");
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kNames{"B", "kB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kNames.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kNames[unit]);
}

std::uint64_t physical_memory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string format_count(std::uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

}  // namespace kvasir
