#include "grammar/decimal_range.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace kvasir::grammar {
namespace {

constexpr int kMaxBoundDigits = 40;

// Builds the numbers of one sign by their digits, from the left. A number is `tight` at a bound as long as its digits
// are those of the bound.
class MagnitudeBuilder {
 public:
  MagnitudeBuilder(GrammarBuilder& builder, const DecimalRange& range)
      : builder_(builder), range_(range), end_(builder.node()) {}

  NodeId end() const { return end_; }

  // Numbers with `whole` digits before the point and up to `fraction` after it.
  void build(NodeId from, std::size_t whole, std::size_t fraction) {
    if (range_.least && whole < range_.least->value.whole.size()) return;
    if (range_.most && whole > range_.most->value.whole.size()) return;
    whole_ = whole;
    Row row;
    row[{.least = range_.least && whole == range_.least->value.whole.size(),
         .most = range_.most && whole == range_.most->value.whole.size()}] = from;
    for (std::size_t i = 0; i < whole; ++i) row = after_digit(row, i, i == 0 && whole > 1 ? '1' : '0');
    close(row, whole);
    if (fraction == 0) return;
    for (auto& [state, node] : row) node = builder_.literal(node, ".");
    for (std::size_t i = whole; i < whole + fraction; ++i) {
      row = after_digit(row, i, '0');
      close(row, i + 1);
    }
  }

 private:
  // What is known of the digits so far.
  struct State {
    bool least = false, most = false;  // tight
    bool fraction = false;             // one after the point is not zero
    bool last_zero = false;            // the last one, after the point, is: where that matters
    std::uint32_t remainder = 0;       // of the digits as an integer, by the step
    auto operator<=>(const State&) const = default;
  };
  using Row = std::map<State, NodeId>;

  bool last_zeros_matter() const { return range_.last_zeros == DecimalRange::LastZeros::kNone; }

  // Digit i of a bound, counted from the first of its whole part.
  char digit(const Bound& bound, std::size_t i) const {
    if (i < whole_) return bound.value.whole[i];
    return i - whole_ < bound.value.fraction.size() ? bound.value.fraction[i - whole_] : '0';
  }

  // The edges from the nodes before digit i to those after it.
  Row after_digit(const Row& row, std::size_t i, char first) {
    Row next;
    for (const auto& [state, node] : row) {
      const char low = state.least ? std::max(first, digit(*range_.least, i)) : first;
      const char high = state.most ? digit(*range_.most, i) : '9';
      for (char c = low; c <= high; ++c) {
        const auto value = static_cast<std::uint32_t>(c - '0');
        const State after{.least = state.least && c == digit(*range_.least, i),
                          .most = state.most && c == digit(*range_.most, i),
                          .fraction = range_.fractions_only && (state.fraction || (i >= whole_ && c != '0')),
                          .last_zero = last_zeros_matter() && i >= whole_ && c == '0',
                          .remainder = range_.step == 0 ? 0 : (state.remainder * 10 + value) % range_.step};
        const auto [to, is_new] = next.try_emplace(after, 0);
        if (is_new) to->second = builder_.node();
        builder_.bytes(node, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to->second);
      }
    }
    return next;
  }

  void close(const Row& row, std::size_t count) {
    for (const auto& [state, node] : row) {
      if (may_end(count, state)) builder_.join(node, end_);
    }
  }

  // Whether the number may end after `count` digits, all later ones being zero.
  bool may_end(std::size_t count, const State& state) const {
    const auto rest_is_zero = [&](const Bound& bound) {
      for (std::size_t i = count; i < whole_ + bound.value.fraction.size(); ++i) {
        if (digit(bound, i) != '0') return false;
      }
      return true;
    };
    if (state.least && !(rest_is_zero(*range_.least) && range_.least->kind == BoundKind::kInclusive)) return false;
    if (state.most && rest_is_zero(*range_.most) && range_.most->kind == BoundKind::kExclusive) return false;
    if ((range_.fractions_only && !state.fraction) || state.last_zero) return false;
    if (range_.step == 0) return true;
    std::uint32_t remainder = state.remainder;
    for (std::size_t i = count; i < whole_ + range_.step_digits; ++i) remainder = remainder * 10 % range_.step;
    return remainder == 0;
  }

  GrammarBuilder& builder_;
  const DecimalRange& range_;
  NodeId end_;
  std::size_t whole_ = 0;
};

std::optional<Bound> magnitude(const std::optional<Bound>& bound) {
  std::optional<Bound> out = bound;
  if (out) out->value.negative = false;
  return out;
}

NodeId build_magnitudes(GrammarBuilder& builder, NodeId from, const DecimalRange& range) {
  MagnitudeBuilder magnitudes(builder, range);
  const std::size_t fraction =
      range.step == 0 ? range.fraction_digits : std::min(range.fraction_digits, range.step_digits);
  for (std::size_t whole = 1; whole <= range.digits; ++whole) {
    magnitudes.build(from, whole, std::min(fraction, range.digits - whole));
  }
  return magnitudes.end();
}

}  // namespace

std::string spell(const Decimal& decimal) {
  return (decimal.negative ? "-" : "") + decimal.whole + (decimal.fraction.empty() ? "" : "." + decimal.fraction);
}

std::optional<Decimal> parse_decimal(const std::string& text) {
  Decimal out;
  out.negative = text.starts_with('-');
  const std::size_t sign = out.negative ? 1 : 0;
  const std::size_t exponent_at = std::min(text.find_first_of("eE"), text.size());
  std::string digits = text.substr(sign, exponent_at - sign);
  int exponent = 0;
  if (exponent_at < text.size()) {
    const std::size_t skip = text[exponent_at + 1] == '+' ? 2 : 1;
    std::from_chars(text.data() + exponent_at + skip, text.data() + text.size(), exponent);
  }
  const std::size_t point = digits.find('.');
  int whole = static_cast<int>(point == std::string::npos ? digits.size() : point) + exponent;
  if (point != std::string::npos) digits.erase(point, 1);
  if (whole > kMaxBoundDigits || whole < -kMaxBoundDigits || digits.size() > kMaxBoundDigits) return std::nullopt;
  if (whole <= 0) {
    digits.insert(0, static_cast<std::size_t>(1 - whole), '0');
    whole = 1;
  }
  if (digits.size() < static_cast<std::size_t>(whole)) digits.resize(static_cast<std::size_t>(whole), '0');
  out.whole = digits.substr(0, static_cast<std::size_t>(whole));
  out.fraction = digits.substr(static_cast<std::size_t>(whole));
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size() - 1));
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (out.is_zero()) out.negative = false;
  return out;
}

bool operator<(const Decimal& left, const Decimal& right) {
  if (left.negative != right.negative) return left.negative;
  const auto smaller = [](const Decimal& a, const Decimal& b) {
    if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size();
    return a.whole != b.whole ? a.whole < b.whole : a.fraction < b.fraction;
  };
  return left.negative ? smaller(right, left) : smaller(left, right);
}

DecimalRange integer_range() {
  return {.least = Bound{{true, "9223372036854775808", ""}},
          .most = Bound{{false, "9223372036854775807", ""}},
          .digits = 19,
          .fraction_digits = 0};
}

NodeId build_range(GrammarBuilder& builder, NodeId from, const DecimalRange& range) {
  const Bound zero{{}, BoundKind::kInclusive};
  const NodeId end = builder.node();
  // 0 and above.
  if (!range.most || !range.most->value.negative) {
    DecimalRange upper = range;
    if (!upper.least || upper.least->value.negative) upper.least = zero;
    builder.join(build_magnitudes(builder, from, upper), end);
  }
  // Below 0: a minus, and the bounds change places. "-0" is left out.
  if (!range.least || range.least->value.negative) {
    DecimalRange lower = range;
    lower.most = magnitude(range.least);
    lower.least = range.most && range.most->value.negative ? magnitude(range.most) : Bound{{}, BoundKind::kExclusive};
    builder.join(build_magnitudes(builder, builder.literal(from, "-"), lower), end);
  }
  return end;
}

}  // namespace kvasir::grammar
