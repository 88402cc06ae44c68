// Numbers between two bounds, as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "grammar/builder.h"

namespace kvasir::grammar {

// A decimal number, exactly: no leading zeros but a lone one, no trailing zeros in the fraction.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;

  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

// Without an exponent.
std::string spell(const Decimal& decimal);

// From the text of a JSON number. nullopt when it has more digits than a sensible bound.
std::optional<Decimal> parse_decimal(const std::string& text);

bool operator<(const Decimal& left, const Decimal& right);

enum class BoundKind { kInclusive, kExclusive };

struct Bound {
  Decimal value;
  BoundKind kind = BoundKind::kInclusive;
};

struct DecimalRange {
  std::optional<Bound> least, most;
  // The most digits of a number in all, and after the point. Doubles tell decimals of 15 digits apart, so that what
  // is below a bound as text is below it as a number too.
  std::size_t digits = 15;
  std::size_t fraction_digits = 15;
  // Multiples of step / 10^step_digits only; 0: any. A number of these has at most step_digits after the point.
  std::uint32_t step = 0;
  std::size_t step_digits = 0;
  bool fractions_only = false;  // no integers, however they are written
  enum class LastZeros : std::uint8_t { kFree, kNone } last_zeros = LastZeros::kFree;  // after the point
};

// Integers up to here are numbers that doubles hold.
inline constexpr std::uint64_t kMaxExact = (std::uint64_t{1} << 53) - 1;

// The largest step that is followed: the automaton has a state for every remainder.
inline constexpr std::uint32_t kMaxStep = 1024;

// Every 64-bit integer.
DecimalRange integer_range();

// Builds the numbers of the range, written without an exponent. Returns the node at the end.
NodeId build_range(GrammarBuilder& builder, NodeId from, const DecimalRange& range);

}  // namespace kvasir::grammar
