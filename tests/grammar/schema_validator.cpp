#include "schema_validator.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

namespace kvasir::grammar::testing {
namespace {

bool has_type(const Json& value, const std::string& type) {
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer") {
    return value.is_number_integer() || (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
  }
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "object") return value.is_object();
  return type == "array" && value.is_array();
}

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// Patterns speak of characters, not bytes. REQUIRES: valid UTF-8.
std::wstring wide(const std::string& text) {
  std::wstring out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) {
      out.back() = static_cast<wchar_t>(out.back() << 6 | (byte & 0x3F));
    } else {
      out += static_cast<wchar_t>(byte < 0x80   ? byte
                                  : byte < 0xE0 ? byte & 0x1F
                                  : byte < 0xF0 ? byte & 0x0F
                                                : byte & 0x07);
    }
  }
  return out;
}

bool matches_pattern(const std::string& text, const std::string& pattern) {
  return std::regex_search(wide(text), std::wregex(wide(pattern)));
}

bool matches_format(const std::string& text, const std::string& format) {
  const auto matches = [&](const char* pattern) { return std::regex_match(text, std::regex(pattern)); };
  const auto date = [&](const std::string& part) {
    int year = 0, month = 0, day = 0;
    if (std::sscanf(part.c_str(), "%4d-%2d-%2d", &year, &month, &day) != 3 || part.size() != 10) return false;
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    const int days[] = {31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1];
  };
  const char* const time = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?(Z|[+-][0-2][0-9]:[0-5][0-9])";
  if (format == "date") return date(text);
  if (format == "time") return matches(time);
  if (format == "date-time") {
    return text.size() > 11 && text[10] == 'T' && date(text.substr(0, 10)) &&
           std::regex_match(text.substr(11), std::regex(time));
  }
  if (format == "uuid") return matches("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}");
  if (format == "email") return matches("[^@\\s]+@[^@\\s.]+(\\.[^@\\s.]+)+");
  if (format == "ipv4") {
    int a = -1, b = -1, c = -1, d = -1;
    return matches("[0-9]+\\.[0-9]+\\.[0-9]+\\.[0-9]+") &&
           std::sscanf(text.c_str(), "%d.%d.%d.%d", &a, &b, &c, &d) == 4 && std::max({a, b, c, d}) < 256;
  }
  if (format == "uri") return matches("[A-Za-z][A-Za-z0-9+.-]*:[^\\s<>\"{}|\\\\^`]*");
  if (format == "uuid4")
    return matches("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}");
  if (format == "base64") return text.size() % 4 == 0 && matches("[A-Za-z0-9+/]*={0,2}");
  if (format == "password" || format == "lowercase") return true;
  if (format == "int32") return true;  // for numbers
  return false;
}

std::string check_string(const std::string& text, const Json& schema) {
  if (schema.contains("minLength") && characters(text) < schema["minLength"]) return "too short: " + text;
  if (schema.contains("maxLength") && characters(text) > schema["maxLength"]) return "too long: " + text;
  if (schema.contains("pattern") && !matches_pattern(text, schema["pattern"])) {
    return "does not match its pattern: " + text;
  }
  if (schema.contains("format") && !matches_format(text, schema["format"])) return "not of its format: " + text;
  return {};
}

std::string check_number(const Json& value, const Json& schema) {
  const double number = value.get<double>();
  if (schema.contains("minimum") && number < schema["minimum"].get<double>()) return "too small: " + value.dump();
  if (schema.contains("maximum") && number > schema["maximum"].get<double>()) return "too large: " + value.dump();
  if (schema.contains("exclusiveMinimum") && number <= schema["exclusiveMinimum"].get<double>()) {
    return "too small: " + value.dump();
  }
  if (schema.contains("exclusiveMaximum") && number >= schema["exclusiveMaximum"].get<double>()) {
    return "too large: " + value.dump();
  }
  if (schema.contains("multipleOf") && std::fmod(number, schema["multipleOf"].get<double>()) != 0) {
    return "not a multiple: " + value.dump();
  }
  if (schema.value("format", "") == "int32" && (std::floor(number) != number || std::abs(number) > 2147483648.0)) {
    return "not an int32: " + value.dump();
  }
  return {};
}

// What a schema says of a value, and which properties and elements it spoke of.
struct Verdict {
  std::string why;  // empty: valid
  std::set<std::string> names;
  std::set<std::size_t> items;

  bool is_valid() const { return why.empty(); }
  void take(const Verdict& other) {
    if (why.empty()) why = other.why;
    if (!other.is_valid()) return;
    names.insert(other.names.begin(), other.names.end());
    items.insert(other.items.begin(), other.items.end());
  }
  void fail(const std::string& reason) {
    if (why.empty()) why = reason;
  }
};

class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  Verdict check(const Json& value, const Json& schema) {
    Verdict out;
    if (schema.is_boolean()) {
      if (schema == false) out.fail("nothing is allowed here");
      return out;
    }
    check_value(value, schema, out);
    check_parts(value, schema, out);
    if (value.is_string()) out.fail(check_string(value.get<std::string>(), schema));
    if (value.is_number()) out.fail(check_number(value, schema));
    if (value.is_object()) check_object(value, schema, out);
    if (value.is_array()) check_array(value, schema, out);
    return out;
  }

 private:
  bool fits(const Json& value, const Json& schema) { return check(value, schema).is_valid(); }

  const Json& target(const std::string& reference) const {
    if (reference == "#" || reference.starts_with("#/")) return root_.at(Json::json_pointer(reference.substr(1)));
    return *anchor(root_, reference.substr(1));
  }

  static const Json* anchor(const Json& within, const std::string& name) {
    if (!within.is_structured()) return nullptr;
    if (within.is_object() && within.value("$anchor", Json()) == name) return &within;
    for (const Json& part : within) {
      if (const Json* found = anchor(part, name)) return found;
    }
    return nullptr;
  }

  void check_value(const Json& value, const Json& schema, Verdict& out) {
    if (schema.contains("type")) {
      const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
      if (std::ranges::none_of(types, [&](const Json& type) { return has_type(value, type); })) {
        out.fail("not of type " + types.dump() + ": " + value.dump());
      }
    }
    if (schema.contains("const") && !same(value, schema["const"])) out.fail("not the constant: " + value.dump());
    if (schema.contains("enum") &&
        std::ranges::none_of(schema["enum"], [&](const Json& one) { return same(one, value); })) {
      out.fail("not in the enum: " + value.dump());
    }
  }

  // Objects are equal whatever the order of their keys.
  static bool same(const Json& a, const Json& b) { return nlohmann::json(a) == nlohmann::json(b); }

  void check_parts(const Json& value, const Json& schema, Verdict& out) {
    if (schema.contains("$ref")) out.take(check(value, target(schema["$ref"].get<std::string>())));
    for (const Json& part : schema.value("allOf", Json::array())) out.take(check(value, part));
    for (const char* key : {"anyOf", "oneOf"}) {
      if (!schema.contains(key)) continue;
      int count = 0;
      for (const Json& part : schema[key]) {
        const Verdict one = check(value, part);
        if (!one.is_valid()) continue;
        ++count;
        out.take(one);
      }
      if (count == 0 || (count > 1 && key == std::string("oneOf"))) {
        out.fail(std::to_string(count) + " of the alternatives: " + value.dump());
      }
    }
    if (schema.contains("not") && fits(value, schema["not"])) out.fail("what it must not be: " + value.dump());
    if (!schema.contains("if")) return;
    const Verdict condition = check(value, schema["if"]);
    if (condition.is_valid()) out.take(condition);
    const char* branch = condition.is_valid() ? "then" : "else";
    if (schema.contains(branch)) out.take(check(value, schema[branch]));
  }

  void check_object(const Json& value, const Json& schema, Verdict& out) {
    const auto needs = [&](const Json& names) {
      for (const Json& name : names) {
        if (!value.contains(name.get<std::string>())) out.fail("no " + name.dump());
      }
    };
    needs(schema.value("required", Json::array()));
    if (schema.contains("minProperties") && value.size() < schema["minProperties"]) out.fail("too few properties");
    if (schema.contains("maxProperties") && value.size() > schema["maxProperties"]) out.fail("too many properties");
    const Json requirements = schema.value("dependentRequired", Json::object());
    for (const auto& [name, names] : requirements.items()) {
      if (value.contains(name)) needs(names);
    }
    const Json dependents = schema.value("dependentSchemas", Json::object());
    for (const auto& [name, part] : dependents.items()) {
      if (value.contains(name)) out.take(check(value, part));
    }
    for (const auto& [name, item] : value.items()) check_property(name, item, schema, out);
    if (!schema.contains("unevaluatedProperties")) return;
    for (const auto& [name, item] : value.items()) {
      if (out.names.contains(name)) continue;
      if (!fits(item, schema["unevaluatedProperties"])) out.fail(name + ": not evaluated, and not allowed");
      out.names.insert(name);
    }
  }

  void check_property(const std::string& name, const Json& item, const Json& schema, Verdict& out) {
    bool is_known = false;
    const auto must = [&](const Json& part) {
      const Verdict one = check(item, part);
      if (!one.is_valid()) out.fail(name + ": " + one.why);
      out.names.insert(name);
      is_known = true;
    };
    if (schema.contains("propertyNames") && !fits(name, schema["propertyNames"])) out.fail("the name " + name);
    if (schema.contains("properties") && schema["properties"].contains(name)) must(schema["properties"][name]);
    const Json patterns = schema.value("patternProperties", Json::object());
    for (const auto& [pattern, part] : patterns.items()) {
      if (matches_pattern(name, pattern)) must(part);
    }
    if (!is_known && schema.contains("additionalProperties")) must(schema["additionalProperties"]);
  }

  void check_array(const Json& value, const Json& schema, Verdict& out) {
    if (schema.contains("minItems") && value.size() < schema["minItems"]) out.fail("too few items");
    if (schema.contains("maxItems") && value.size() > schema["maxItems"]) out.fail("too many items");
    const Json prefix = schema.value("prefixItems", Json::array());
    std::size_t contained = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      for (std::size_t k = 0; k < i && schema.value("uniqueItems", false); ++k) {
        if (same(value[i], value[k])) out.fail("an element twice: " + value[i].dump());
      }
      if (i < prefix.size() || schema.contains("items")) {
        const Verdict one = check(value[i], i < prefix.size() ? prefix[i] : schema["items"]);
        if (!one.is_valid()) out.fail(std::to_string(i) + ": " + one.why);
        out.items.insert(i);
      }
      if (schema.contains("contains") && fits(value[i], schema["contains"])) {
        ++contained;
        out.items.insert(i);
      }
    }
    if (schema.contains("contains") && contained < schema.value("minContains", std::size_t{1}))
      out.fail("contains too few");
    if (schema.contains("contains") && schema.contains("maxContains") && contained > schema["maxContains"]) {
      out.fail("contains too many");
    }
    if (!schema.contains("unevaluatedItems")) return;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (out.items.contains(i)) continue;
      if (!fits(value[i], schema["unevaluatedItems"]))
        out.fail(std::to_string(i) + ": not evaluated, and not allowed");
      out.items.insert(i);
    }
  }

  const Json& root_;
};

}  // namespace

std::string why_invalid(const Json& value, const Json& schema, const Json& root) {
  return Validator(root).check(value, schema).why;
}

}  // namespace kvasir::grammar::testing
