#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "grammar/decimal_range.h"
#include "grammar/formats.h"
#include "grammar/schema_expansion.h"
#include "grammar/schema_keywords.h"

namespace kvasir::grammar {
namespace {

Truth of(bool truth) { return truth ? Truth::kYes : Truth::kNo; }
Truth and_also(Truth left, Truth right) {
  if (left == Truth::kNo || right == Truth::kNo) return Truth::kNo;
  return left == Truth::kYes ? right : left;
}
Truth or_else(Truth left, Truth right) {
  if (left == Truth::kYes || right == Truth::kYes) return Truth::kYes;
  return left == Truth::kNo ? right : left;
}

bool within(const Json& flat, const char* least, const char* most, std::size_t count) {
  return !(flat.contains(least) && count < flat[least]) && !(flat.contains(most) && count > flat[most]);
}

// Whether a number is a multiple, as decimals have it.
Truth is_multiple(const Json& value, const Json& step) {
  const std::optional<Decimal> number = parse_decimal(value.dump());
  const std::optional<Decimal> unit = parse_decimal(step.dump());
  if (!number || !unit || unit->is_zero()) return Truth::kUnknown;
  const std::size_t digits = std::max(number->fraction.size(), unit->fraction.size());
  const auto scaled = [digits](const Decimal& decimal) -> std::optional<std::uint64_t> {
    const std::string text = decimal.whole + decimal.fraction + std::string(digits - decimal.fraction.size(), '0');
    if (text.size() > 18) return std::nullopt;
    return std::stoull(text);
  };
  const std::optional<std::uint64_t> a = scaled(*number);
  const std::optional<std::uint64_t> b = scaled(*unit);
  if (!a || !b) return Truth::kUnknown;
  return of(*a % *b == 0);
}

Truth number_holds(const Json& value, const Json& flat) {
  Truth truth = Truth::kYes;
  if (flat.contains("minimum") && value < flat["minimum"]) return Truth::kNo;
  if (flat.contains("maximum") && flat["maximum"] < value) return Truth::kNo;
  if (flat.contains("exclusiveMinimum") && value <= flat["exclusiveMinimum"]) return Truth::kNo;
  if (flat.contains("exclusiveMaximum") && flat["exclusiveMaximum"] <= value) return Truth::kNo;
  if (flat.contains("multipleOf")) {
    for (const Json& step : flat["multipleOf"]) truth = and_also(truth, is_multiple(value, step));
  }
  return truth;
}

Truth string_holds(const std::string& text, const Json& flat, Languages& languages, const std::string& path) {
  const auto length =
      static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  if (!within(flat, "minLength", "maxLength", length)) return Truth::kNo;
  const auto matches = [&](const Json& pattern) {
    return languages.of_pattern(pattern.get<std::string>(), path + ".pattern").contains(text);
  };
  if (flat.contains("pattern") && !std::ranges::all_of(flat["pattern"], matches)) return Truth::kNo;
  if (flat.contains("$notPattern") && std::ranges::any_of(flat["$notPattern"], matches)) return Truth::kNo;
  if (!flat.contains("format")) return Truth::kYes;
  // Our patterns have fewer texts than the formats, and who reads the answer may not look at formats at all.
  const auto is_of = [&](const Json& format) { return matches(*pattern_of_format(format.get<std::string>())); };
  return std::ranges::all_of(flat["format"], is_of) ? Truth::kYes : Truth::kUnknown;
}

}  // namespace

Truth SchemaExpansion::holds(const Json& value, const Json& schema, const std::string& path) {
  if (schema.is_boolean()) return of(schema == true);
  Truth truth = Truth::kNo;
  for (const Json& flat : expand(schema, path)) {
    truth = or_else(truth, holds_flat(value, flat, path));
    if (truth == Truth::kYes) break;
  }
  return truth;
}

Truth SchemaExpansion::holds_flat(const Json& value, const Json& flat, const std::string& path) {
  Truth truth = Truth::kYes;
  const auto has = [&](const char* key) {
    return std::ranges::any_of(flat[key], [&](const Json& one) { return one == value; });
  };
  if (flat.contains("enum") && !has("enum")) truth = Truth::kNo;
  if (flat.contains("$except") && has("$except")) truth = Truth::kNo;
  const auto is_of = [&](const Json& type) { return is_of_type(value, type.get<std::string_view>()); };
  if (flat.contains("type") && std::ranges::none_of(flat["type"], is_of)) truth = Truth::kNo;
  if (truth == Truth::kYes) {
    if (value.is_number()) truth = number_holds(value, flat);
    if (value.is_string()) truth = string_holds(value.get<std::string>(), flat, languages_, path);
    if (value.is_array()) truth = array_holds(value, flat, path);
    if (value.is_object()) truth = object_holds(value, flat, path);
  }
  return truth == Truth::kNo && flat.contains("$inexact") ? Truth::kUnknown : truth;
}

Truth SchemaExpansion::array_holds(const Json& value, const Json& flat, const std::string& path) {
  if (!within(flat, "minItems", "maxItems", value.size())) return Truth::kNo;
  Truth truth = Truth::kYes;
  const std::size_t fixed = flat.contains("prefixItems") ? flat["prefixItems"].size() : 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (i < fixed) {
      truth = and_also(truth, holds(value[i], flat["prefixItems"][i], path));
    } else if (flat.contains("items")) {
      truth = and_also(truth, holds(value[i], flat["items"], path));
    }
    for (std::size_t k = 0; flat.contains("uniqueItems") && k < i; ++k) {
      if (value[i] == value[k]) return Truth::kNo;
    }
  }
  if (!flat.contains("$some")) return truth;
  for (const Json& some : flat["$some"]) {
    std::uint64_t sure = 0, perhaps = 0;
    for (std::size_t i = some["from"].get<std::size_t>(); i < value.size(); ++i) {
      const Truth one = holds(value[i], some["schema"], path);
      sure += one == Truth::kYes ? 1 : 0;
      perhaps += one == Truth::kUnknown ? 1 : 0;
    }
    const bool too_few = sure + perhaps < some["least"];
    const bool too_many = some.contains("most") && sure > some["most"];
    if (too_few || too_many) return Truth::kNo;
    const bool is_sure = sure >= some["least"] && !(some.contains("most") && sure + perhaps > some["most"]);
    if (!is_sure) truth = and_also(truth, Truth::kUnknown);
  }
  return truth;
}

Truth SchemaExpansion::object_holds(const Json& value, const Json& flat, const std::string& path) {
  if (!within(flat, "minProperties", "maxProperties", value.size())) return Truth::kNo;
  Truth truth = Truth::kYes;
  if (flat.contains("required")) {
    for (const Json& name : flat["required"]) {
      if (!value.contains(name.get<std::string>())) return Truth::kNo;
    }
  }
  for (const auto& [name, item] : value.items()) {
    if (flat.contains("properties") && flat["properties"].contains(name)) {
      truth = and_also(truth, holds(item, flat["properties"][name], path));
      continue;
    }
    for (const char* key : {"$names", "propertyNames"}) {
      if (!flat.contains(key)) continue;
      for (const Json& rule : flat[key]) {
        if (key == std::string_view("propertyNames")) {
          truth = and_also(truth, holds(name, rule, path));
          continue;
        }
        const Truth applies = holds(name, rule["names"], path);
        if (applies == Truth::kNo) continue;
        const Truth fits = holds(item, rule["schema"], path);
        truth = and_also(truth, applies == Truth::kYes || fits == Truth::kYes ? fits : Truth::kUnknown);
      }
    }
  }
  if (!flat.contains("$exists")) return truth;
  for (const Json& exists : flat["$exists"]) {
    Truth found = Truth::kNo;
    for (const auto& [name, item] : value.items()) {
      found = or_else(found, and_also(holds(name, exists["names"], path), holds(item, exists["schema"], path)));
    }
    truth = and_also(truth, found);
  }
  return truth;
}

std::optional<Language> SchemaExpansion::strings_of_flat(const Json& flat, const std::string& path) {
  std::optional<Language> out;
  const auto keep = [&](const Language& language, Languages::Keep which) {
    if (!out && which == Languages::Keep::kBoth) {
      out = language;
      return;
    }
    out = languages_.combined(out ? *out : languages_.of_length({}, path), language, which, path);
  };
  const auto list = [&](const char* key) { return flat.contains(key) ? flat[key] : Json::array(); };
  const std::string here = path + ".pattern";
  for (const Json& pattern : list("pattern")) {
    keep(languages_.of_pattern(pattern.get<std::string>(), here), Languages::Keep::kBoth);
  }
  for (const Json& format : list("format")) {
    keep(languages_.of_pattern(*pattern_of_format(format.get<std::string>()), here), Languages::Keep::kBoth);
  }
  for (const Json& pattern : list("$notPattern")) {
    keep(languages_.of_pattern(pattern.get<std::string>(), here), Languages::Keep::kFirstOnly);
  }
  std::vector<std::string> texts;
  for (const Json& value : list("$except")) {
    if (value.is_string()) texts.push_back(value.get<std::string>());
  }
  if (!texts.empty()) keep(languages_.of_texts(texts, path), Languages::Keep::kFirstOnly);
  if (!out) return std::nullopt;
  const LengthLimits length = length_limits(flat);
  if (length.least > 0 || length.most != Regex::kNoLimit) {
    keep(languages_.of_length(length, path), Languages::Keep::kBoth);
  }
  return out;
}

LengthLimits length_limits(const Json& flat) {
  // Larger counts are cut: they exceed the limits in any case.
  const auto count = [&](const char* key, std::uint32_t absent) {
    if (!flat.contains(key)) return absent;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(flat[key].get<std::uint64_t>(), 1U << 30));
  };
  return {count("minLength", 0), count("maxLength", Regex::kNoLimit)};
}

Language SchemaExpansion::strings_of(const Json& schema, Need need, const std::string& path) {
  Language all;
  for (const Json& flat : expand({{"type", "string"}, {"allOf", Json::array({schema})}}, path)) {
    if (need == Need::kExact && (flat.contains("$inexact") || flat.contains("format"))) {
      fail_unsupported("a rule for names that says more than patterns do", path);
    }
    Language one;
    if (flat.contains("enum")) {
      one = languages_.of_texts(flat["enum"].get<std::vector<std::string>>(), path);
    } else if (std::optional<Language> some = strings_of_flat(flat, path)) {
      one = *std::move(some);
    } else {
      one = languages_.of_length(length_limits(flat), path);
    }
    all = languages_.combined(all, one, Languages::Keep::kEither, path);
  }
  return all;
}

}  // namespace kvasir::grammar
