#include "text/charsmap.h"

#include <algorithm>

#include "base/error.h"

namespace kvasir {
namespace {

std::uint32_t read_u32(std::string_view bytes, size_t at) {
  std::uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}

void append_u32(std::uint32_t value, std::string& out) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(static_cast<unsigned char>(value >> (8 * i) & 0xFF));
}

// The fields of an entry of Darts-clone.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& where) {
  const auto fail = [&](std::string problem) {
    fail_input("the precompiled_charsmap " + std::move(problem), where, "the file is damaged; download it again");
  };
  if (bytes.size() < 4 || bytes.size() > kMaxBytes) fail("has a wrong size");
  const std::uint32_t size = read_u32(bytes, 0);
  if (size % 4 != 0 || size == 0 || size > bytes.size() - 4) fail("has a wrong size");
  units_.reserve(size / 4);
  for (size_t at = 4; at < 4 + size_t{size}; at += 4) units_.push_back(read_u32(bytes, at));
  results_ = std::string(bytes.substr(4 + size));
  // Each ends in a NUL, and none is so long that a text could grow without measure.
  if (!results_.empty() && results_.back() != '\0') fail("does not end its last result");
  for (size_t at = 0; at < results_.size();) {
    const size_t end = results_.find('\0', at);
    if (end - at > kMaxResult) fail("has a result that is too long");
    at = end + 1;
  }
}

std::string Charsmap::bytes() const {
  std::string out;
  append_u32(static_cast<std::uint32_t>(units_.size() * 4), out);
  for (const std::uint32_t unit : units_) append_u32(unit, out);
  return out + results_;
}

std::string_view Charsmap::result_at(std::uint32_t offset) const {
  if (offset >= results_.size()) return {};
  return std::string_view(results_).substr(offset, results_.find('\0', offset) - offset);
}

// A damaged array may lead anywhere within itself; each step takes a byte of the text, so that ends.
std::optional<Charsmap::Match> Charsmap::find(std::string_view text, Wanted wanted) const {
  std::optional<Match> found;
  size_t node = offset_of(units_[0]);
  for (size_t at = 0; at < std::min(text.size(), kMaxKey); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    const bool leaf = has_leaf(units_[node]);
    node ^= offset_of(units_[node]);
    if (node >= units_.size()) break;
    if (!leaf) continue;
    found = Match{at + 1, result_at(value_of(units_[node]))};
    if (wanted == Wanted::kShortest) break;
  }
  return found;
}

}  // namespace kvasir
