// What sets, arrays that must not have an element twice, need to know of the values of a schema: how each is spelled
// in one way, and whether there are enough of them.
#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cstdlib>
#include <utility>

#include "grammar/matcher.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_keywords.h"

namespace kvasir::grammar {
namespace {

constexpr std::uint64_t kMaxDemand = std::uint64_t{1} << 14;
constexpr std::size_t kMaxCounted = std::size_t{1} << 18;  // beginnings of texts, of all sets: some 0.2 s

// The texts of a rule, counted by length, until there are enough. Every beginning of a text is one text at least.
class TextCounter {
 public:
  explicit TextCounter(const Grammar& grammar) : grammar_(grammar) {}

  bool has(std::uint64_t wanted, RuleId rule, const std::string& path) {
    std::vector<Beginning> beginnings(1);
    stepper_for(beginnings.front()).start(rule, beginnings.front().places);
    std::uint64_t whole = 0;
    while (!beginnings.empty() && whole + beginnings.size() < wanted) {
      std::vector<Beginning> longer;
      for (const Beginning& beginning : beginnings) {
        const std::bitset<256> taken = bytes_of(beginning.places);
        for (unsigned byte = 0; byte < 256 && whole + longer.size() < wanted; ++byte) {
          if (!taken[byte]) continue;
          if (++counted_ > kMaxCounted) fail_too_large("the values of \"uniqueItems\" are too many to count", path);
          Beginning next{{}, beginning.sets};
          Stepper stepper = stepper_for(next);
          if (!stepper.step(beginning.places, static_cast<std::uint8_t>(byte), next.places)) continue;
          if (stepper.complete(next.places)) ++whole;
          if (stepper.can_go_on(next.places)) longer.push_back(std::move(next));
        }
      }
      beginnings = std::move(longer);
    }
    return whole + beginnings.size() >= wanted;
  }

 private:
  std::bitset<256> bytes_of(const Places& places) const {
    std::bitset<256> out;
    for (const Place& place : places) {
      for (const ByteEdge& edge : grammar_.edges_of(place.state)) {
        for (unsigned byte = edge.low; byte <= edge.high; ++byte) out.set(byte);
      }
    }
    return out;
  }

  struct Beginning {
    Places places;
    OpenSets sets;
  };
  Stepper stepper_for(Beginning& beginning) { return Stepper(grammar_, pool_, beginning.sets); }

  const Grammar& grammar_;
  StackPool pool_;
  std::size_t counted_ = 0;
};

std::string spell_number(const Json& value, const std::string& path) {
  if (value.is_number_float()) {
    const std::optional<Decimal> decimal = parse_decimal(value.dump());
    return decimal ? spell(*decimal) : value.dump();
  }
  const bool is_exact = value.is_number_unsigned() ? value.get<std::uint64_t>() <= kMaxExact
                                                   : std::abs(value.get<double>()) <= double{kMaxExact};
  if (!is_exact) {
    fail_unsupported(
        fmt::format("{}, which readers may take for its neighbour, within \"uniqueItems\"", value.dump()), path);
  }
  return value.dump();
}

std::string spell_in_one_way(const Json& value, const std::string& path) {
  if (value.is_number()) return spell_number(value, path);
  if (!value.is_structured()) return value.dump();
  std::vector<std::pair<std::string, std::string>> parts;
  for (const auto& [name, item] : value.items()) parts.emplace_back(name, spell_in_one_way(item, path));
  if (value.is_object()) std::ranges::sort(parts);
  std::string out;
  for (const auto& [name, text] : parts) {
    if (!out.empty()) out += ',';
    if (value.is_object()) out += Json(name).dump() + ":";
    out += text;
  }
  return value.is_object() ? "{" + out + "}" : "[" + out + "]";
}

}  // namespace

std::string SchemaCompiler::spell(const Json& value, const std::string& path) const {
  return spelling() == Spelling::kFree ? value.dump() : spell_in_one_way(value, path);
}

void SchemaCompiler::check_demands(const Grammar& grammar) const {
  TextCounter counter(grammar);
  for (const auto& [rule, demand] : demands_) {
    // One is there: the grammar has no rule without texts.
    if (demand.texts < 2 || grammar.start_of(rule) == kNoState) continue;
    if (demand.texts > kMaxDemand) {
      fail_unsupported(fmt::format("\"uniqueItems\" of at least {} elements", demand.texts), demand.path);
    }
    if (!counter.has(demand.texts, rule, demand.path)) {
      fail_unsupported(fmt::format("\"uniqueItems\" of {} elements that may have fewer values", demand.texts),
                       demand.path);
    }
  }
}

}  // namespace kvasir::grammar
