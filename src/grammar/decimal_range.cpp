#include "grammar/decimal_range.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

namespace kvasir::grammar {
namespace {

constexpr int kMaxBoundDigits = 40;

// Builds the numbers of one sign by their digits, from the left. A number is `tight` at a bound as long as its digits
// are those of the bound.
class MagnitudeBuilder {
 public:
  MagnitudeBuilder(GrammarBuilder& builder, std::optional<Bound> least, std::optional<Bound> most)
      : builder_(builder), least_(std::move(least)), most_(std::move(most)), end_(builder.node()) {}

  NodeId end() const { return end_; }

  // Numbers with `whole` digits before the point and up to `fraction` after it.
  void build(NodeId from, std::size_t whole, std::size_t fraction) {
    if (least_ && whole < least_->value.whole.size()) return;
    if (most_ && whole > most_->value.whole.size()) return;
    whole_ = whole;
    nodes_.clear();
    const Tight start{least_ && whole == least_->value.whole.size(), most_ && whole == most_->value.whole.size()};
    nodes_[{0, start.least, start.most}] = from;
    for (std::size_t i = 0; i < whole; ++i) digits(i, i == 0 && whole > 1 ? '1' : '0');
    for (const Tight tight : kAllTight) {
      const auto at = nodes_.find({whole, tight.least, tight.most});
      if (at == nodes_.end()) continue;
      if (may_end(whole, tight)) builder_.join(at->second, end_);
      if (fraction > 0) at->second = builder_.literal(at->second, ".");
    }
    for (std::size_t i = whole; i < whole + fraction; ++i) {
      digits(i, '0');
      for (const Tight tight : kAllTight) {
        const auto at = nodes_.find({i + 1, tight.least, tight.most});
        if (at != nodes_.end() && may_end(i + 1, tight)) builder_.join(at->second, end_);
      }
    }
  }

 private:
  struct Tight {
    bool least, most;
  };
  static constexpr Tight kAllTight[] = {{false, false}, {false, true}, {true, false}, {true, true}};

  // Digit i of a bound, counted from the first of its whole part.
  char digit(const Bound& bound, std::size_t i) const {
    if (i < whole_) return bound.value.whole[i];
    return i - whole_ < bound.value.fraction.size() ? bound.value.fraction[i - whole_] : '0';
  }

  // The edges from the nodes before digit i to those after it.
  void digits(std::size_t i, char first) {
    for (const Tight tight : kAllTight) {
      const auto from = nodes_.find({i, tight.least, tight.most});
      if (from == nodes_.end()) continue;
      const char low = tight.least ? std::max(first, digit(*least_, i)) : first;
      const char high = tight.most ? digit(*most_, i) : '9';
      for (char c = low; c <= high; ++c) {
        const bool at_least = tight.least && c == digit(*least_, i);
        const bool at_most = tight.most && c == digit(*most_, i);
        const auto [to, is_new] = nodes_.try_emplace({i + 1, at_least, at_most}, 0);
        if (is_new) to->second = builder_.node();
        builder_.bytes(from->second, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to->second);
      }
    }
  }

  // Whether the number may end after `count` digits, all later ones being zero.
  bool may_end(std::size_t count, Tight tight) const {
    const auto rest_is_zero = [&](const Bound& bound) {
      for (std::size_t i = count; i < whole_ + bound.value.fraction.size(); ++i) {
        if (digit(bound, i) != '0') return false;
      }
      return true;
    };
    if (tight.least && !(rest_is_zero(*least_) && least_->kind == BoundKind::kInclusive)) return false;
    return !(tight.most && rest_is_zero(*most_) && most_->kind == BoundKind::kExclusive);
  }

  GrammarBuilder& builder_;
  std::optional<Bound> least_, most_;
  NodeId end_;
  std::size_t whole_ = 0;
  std::map<std::tuple<std::size_t, bool, bool>, NodeId> nodes_;  // (digits read, tight at least, tight at most)
};

std::optional<Bound> magnitude(const std::optional<Bound>& bound) {
  std::optional<Bound> out = bound;
  if (out) out->value.negative = false;
  return out;
}

NodeId build_magnitudes(GrammarBuilder& builder, NodeId from, const DecimalRange& range) {
  MagnitudeBuilder magnitudes(builder, range.least, range.most);
  for (std::size_t whole = 1; whole <= range.digits; ++whole) {
    magnitudes.build(from, whole, std::min(range.fraction_digits, range.digits - whole));
  }
  return magnitudes.end();
}

}  // namespace

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
