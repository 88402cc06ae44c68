#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "grammar/json_text.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_keywords.h"

namespace kvasir::grammar {
namespace {

constexpr std::size_t kMaxExcepted = 64;

enum class Side { kLeast, kMost };

// A limit, exactly. Our numbers have far fewer digits than the largest and smallest doubles: what is beyond 10^40
// limits as 10^30 does, and what is closer to zero than they come leaves zero on one side.
Bound bound_of(const Json& limit, BoundKind kind, Side side) {
  if (const std::optional<Decimal> value = parse_decimal(limit.dump())) return {*value, kind};
  const auto number = limit.get<double>();
  if (std::abs(number) > 1) return {{number < 0, "1" + std::string(30, '0'), ""}, kind};
  const bool zero_is_in = side == Side::kLeast ? number < 0 : number > 0;
  return {{}, zero_is_in ? BoundKind::kInclusive : BoundKind::kExclusive};
}

std::optional<Bound> limit(const Json& flat, Side side) {
  const char* inclusive = side == Side::kLeast ? "minimum" : "maximum";
  const char* exclusive = side == Side::kLeast ? "exclusiveMinimum" : "exclusiveMaximum";
  if (flat.contains(inclusive)) return bound_of(flat[inclusive], BoundKind::kInclusive, side);
  if (flat.contains(exclusive)) return bound_of(flat[exclusive], BoundKind::kExclusive, side);
  return std::nullopt;
}

// The smallest number that is a multiple of all that are given.
void set_step(DecimalRange& range, const Json& steps, const std::string& path) {
  for (const Json& step : steps) {
    const auto refuse = [&] { fail_unsupported(fmt::format("\"multipleOf\": {}", step.dump()), path); };
    const std::optional<Decimal> value = parse_decimal(step.dump());
    if (!value || value->negative || value->is_zero()) refuse();
    const std::string digits = value->whole + value->fraction;
    if (digits.size() > 9) refuse();
    // 0.5 is a number for doubles, 0.1 is not: there, two who check an answer may not agree.
    std::uint64_t fives = 1;
    for (std::size_t i = 0; i < value->fraction.size(); ++i) fives *= 5;
    if (std::stoull(digits) % fives != 0) refuse();
    const std::size_t places = std::max(range.step_digits, value->fraction.size());
    const auto scaled = [&](std::uint64_t number, std::size_t from) {
      for (std::size_t i = from; i < places; ++i) number *= 10;
      return number;
    };
    std::uint64_t all = scaled(std::stoull(digits), value->fraction.size());
    if (range.step != 0) all = std::lcm(all, scaled(range.step, range.step_digits));
    if (all > kMaxStep) refuse();
    range.step = static_cast<std::uint32_t>(all);
    range.step_digits = places;
  }
}

}  // namespace

NodeId SchemaCompiler::build_numeric(NodeId from, const Json& flat, const std::string& type,
                                     const std::string& path) {
  DecimalRange range = type == "integer" ? integer_range() : DecimalRange{};
  range.fractions_only = type == "fraction";
  if (spelling() == Spelling::kOneWay) {
    range.last_zeros = DecimalRange::LastZeros::kNone;
    const std::string largest = std::to_string(kMaxExact);
    if (range.least) range.least = Bound{{true, largest, ""}};
    if (range.most) range.most = Bound{{false, largest, ""}};
  }
  std::vector<Decimal> excepted;
  bool is_any = type == "number" && spelling() == Spelling::kFree;
  for (const Json& value : flat.contains("$except") ? flat["$except"] : Json::array()) {
    if (!value.is_number()) continue;
    is_any = false;
    const std::optional<Decimal> decimal = parse_decimal(value.dump());
    if (decimal) excepted.push_back(*decimal);  // else our numbers do not come to it
  }
  if (excepted.size() > kMaxExcepted) fail_unsupported("so many numbers that it must not be", path);
  std::ranges::sort(excepted, [](const Decimal& a, const Decimal& b) { return a < b; });
  const auto least = limit(flat, Side::kLeast);
  const auto most = limit(flat, Side::kMost);
  if (least && !(range.least && least->value < range.least->value)) range.least = least;
  if (most && !(range.most && range.most->value < most->value)) range.most = most;
  if (flat.contains("multipleOf")) set_step(range, flat["multipleOf"], path);
  if (is_any && !least && !most && range.step == 0) return build_number(builder_, from);
  // The numbers between one that is excepted and the next.
  const NodeId end = builder_.node();
  DecimalRange piece = range;
  for (const Decimal& number : excepted) {
    if ((range.least && number < range.least->value) || (range.most && range.most->value < number)) continue;
    piece.most = Bound{number, BoundKind::kExclusive};
    builder_.join(build_range(builder_, from, piece), end);
    piece.least = piece.most;
  }
  piece.most = range.most;
  builder_.join(build_range(builder_, from, piece), end);
  return end;
}

}  // namespace kvasir::grammar
