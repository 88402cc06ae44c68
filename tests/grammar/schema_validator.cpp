#include "schema_validator.h"

#include <algorithm>
#include <cmath>
#include <regex>

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
  return {};
}

std::string check_object(const Json& value, const Json& schema, const Json& root) {
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return "no " + name.dump();
  }
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [name, item] : value.items()) {
    std::string why;
    if (properties.contains(name)) {
      why = why_invalid(item, properties[name], root);
    } else if (schema.contains("additionalProperties")) {
      why = why_invalid(item, schema["additionalProperties"], root);
    }
    if (!why.empty()) return name + ": " + why;
  }
  return {};
}

std::string check_array(const Json& value, const Json& schema, const Json& root) {
  if (schema.contains("minItems") && value.size() < schema["minItems"]) return "too few items";
  if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return "too many items";
  const Json prefix = schema.value("prefixItems", Json::array());
  for (std::size_t i = 0; i < value.size(); ++i) {
    std::string why;
    if (i < prefix.size()) {
      why = why_invalid(value[i], prefix[i], root);
    } else if (schema.contains("items")) {
      why = why_invalid(value[i], schema["items"], root);
    }
    if (!why.empty()) return std::to_string(i) + ": " + why;
  }
  return {};
}

}  // namespace

std::string why_invalid(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_boolean()) return schema == true ? "" : "nothing is allowed here";
  if (schema.contains("$ref")) {
    const Json& target = root.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1)));
    if (std::string why = why_invalid(value, target, root); !why.empty()) return why;
  }
  for (const Json& part : schema.value("allOf", Json::array())) {
    if (std::string why = why_invalid(value, part, root); !why.empty()) return why;
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    if (!schema.contains(key)) continue;
    const auto fits = [&](const Json& part) { return why_invalid(value, part, root).empty(); };
    if (std::ranges::none_of(schema[key], fits)) return "none of the alternatives: " + value.dump();
  }
  if (schema.contains("type")) {
    const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    if (std::ranges::none_of(types, [&](const Json& type) { return has_type(value, type); })) {
      return "not of type " + types.dump() + ": " + value.dump();
    }
  }
  if (schema.contains("const") && value != schema["const"]) return "not the constant: " + value.dump();
  if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end()) {
    return "not in the enum: " + value.dump();
  }
  if (value.is_string()) return check_string(value.get<std::string>(), schema);
  if (value.is_number()) return check_number(value, schema);
  if (value.is_object()) return check_object(value, schema, root);
  return value.is_array() ? check_array(value, schema, root) : "";
}

}  // namespace kvasir::grammar::testing
