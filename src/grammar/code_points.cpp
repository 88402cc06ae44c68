#include "grammar/code_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvasir::grammar {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr CodePointSet::Range kSurrogates{0xD800, 0xDFFF};

using Utf8 = std::array<std::uint8_t, 4>;

// The bytes of a character, and how many.
std::pair<Utf8, std::size_t> utf8_of(char32_t c) {
  const auto tail = [c](int shift) { return static_cast<std::uint8_t>(0x80 | (c >> shift & 0x3F)); };
  const auto lead = [c](int shift, unsigned mark) { return static_cast<std::uint8_t>(mark | c >> shift); };
  if (c < 0x80) return {{static_cast<std::uint8_t>(c)}, 1};
  if (c < 0x800) return {{lead(6, 0xC0), tail(0)}, 2};
  if (c < 0x10000) return {{lead(12, 0xE0), tail(6), tail(0)}, 3};
  return {{lead(18, 0xF0), tail(12), tail(6), tail(0)}, 4};
}

// The last character that has as many bytes as c.
char32_t last_as_long(char32_t c) { return c < 0x80 ? 0x7F : c < 0x800 ? 0x7FF : c < 0x10000 ? 0xFFFF : kLast; }

// One range of each byte spells the characters from low to high exactly when, from the right, the bytes run from 80
// to BF until they agree. This is the largest such piece that begins at `low`.
char32_t end_of_piece(char32_t low, char32_t high) {
  high = std::min(high, last_as_long(low));
  for (int bits = 18; bits > 0; bits -= 6) {
    const char32_t mask = (char32_t{1} << bits) - 1;
    if ((low & ~mask) == (high & ~mask)) continue;  // the bytes left of here agree
    if ((low & mask) != 0) {
      high = low | mask;  // begin by filling up the block
    } else if ((high & mask) != mask) {
      high = (high & ~mask) - 1;  // whole blocks first, the broken one later
    }
  }
  return high;
}

void build_range(GrammarBuilder& builder, NodeId from, CodePointSet::Range range, NodeId to) {
  auto [low, high] = range;
  while (low <= high) {
    const char32_t end = end_of_piece(low, high);
    const auto [first, length] = utf8_of(low);
    const auto [last, same_length] = utf8_of(end);
    NodeId at = from;
    for (std::size_t i = 0; i < length; ++i) {
      const NodeId next = i + 1 == length ? to : builder.node();
      builder.bytes(at, first[i], last[i], next);
      at = next;
    }
    low = end + 1;
  }
}

bool needs_escape(char32_t c) { return c < 0x20 || c == U'"' || c == U'\\'; }

}  // namespace

std::optional<char32_t> take_utf8(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || text.size() < length) return std::nullopt;
  char32_t c = length == 1 ? lead : lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return std::nullopt;
    c = c << 6 | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  if (overlong || c > kLast || (c >= kSurrogates.first && c <= kSurrogates.second)) return std::nullopt;
  text.remove_prefix(length);
  return c;
}

CodePointSet::CodePointSet(std::initializer_list<Range> ranges) {
  for (const auto& [low, high] : ranges) add(low, high);
}

CodePointSet CodePointSet::all() { return {{0, kSurrogates.first - 1}, {kSurrogates.second + 1, kLast}}; }

void CodePointSet::add(char32_t low, char32_t high) {
  high = std::min(high, kLast);
  if (low <= kSurrogates.second && high >= kSurrogates.first) {
    if (low < kSurrogates.first) add(low, kSurrogates.first - 1);
    if (high > kSurrogates.second) add(kSurrogates.second + 1, high);
    return;
  }
  if (low > high) return;
  const auto touches = [&](const Range& range) { return range.first <= high + 1 && low <= range.second + 1; };
  for (const Range& range : ranges_) {
    if (!touches(range)) continue;
    low = std::min(low, range.first);
    high = std::max(high, range.second);
  }
  std::erase_if(ranges_, touches);
  ranges_.insert(std::ranges::upper_bound(ranges_, Range{low, high}), {low, high});
}

void CodePointSet::add(const CodePointSet& other) {
  for (const auto& [low, high] : other.ranges_) add(low, high);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet out;
  char32_t next = 0;
  for (const auto& [low, high] : ranges_) {
    if (low > next) out.add(next, low - 1);
    next = high + 1;
  }
  out.add(next, kLast);
  return out;
}

std::string utf8(char32_t character) {
  const auto [bytes, length] = utf8_of(character);
  return {reinterpret_cast<const char*>(bytes.data()), length};
}

std::string json_spelling(char32_t character) {
  switch (character) {
    case U'"':
      return "\\\"";
    case U'\\':
      return "\\\\";
    case U'\b':
      return "\\b";
    case U'\f':
      return "\\f";
    case U'\n':
      return "\\n";
    case U'\r':
      return "\\r";
    case U'\t':
      return "\\t";
    default:
      break;
  }
  if (character < 0x20) return fmt::format("\\u{:04x}", static_cast<unsigned>(character));
  return utf8(character);
}

void build_characters(GrammarBuilder& builder, NodeId from, const CodePointSet& set, NodeId to) {
  for (const auto& [low, high] : set.ranges()) {
    char32_t start = low;
    for (char32_t c = low; c <= std::min<char32_t>(high, U'\\'); ++c) {
      if (!needs_escape(c)) continue;
      if (c > start) build_range(builder, from, {start, c - 1}, to);
      builder.join(builder.literal(from, json_spelling(c)), to);
      start = c + 1;
    }
    if (start <= high) build_range(builder, from, {start, high}, to);
  }
}

}  // namespace kvasir::grammar
