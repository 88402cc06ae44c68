#include "grammar/formats.h"

#include <algorithm>
#include <iterator>

namespace kvasir::grammar {
namespace {

// Days that their month has; February 29 in leap years.
const char* date() {
  return R"((\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))"
         R"(|(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29))";
}

const char* time() { return R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))"; }

std::string duration() {
  const std::string n = R"(\d{1,9})";
  const std::string times = "T(" + n + "H(" + n + "M(" + n + "S)?)?|" + n + "M(" + n + "S)?|" + n + "S)";
  const std::string dates = "(" + n + "Y(" + n + "M(" + n + "D)?)?|" + n + "M(" + n + "D)?|" + n + "D)";
  return "P(" + n + "W|" + dates + "(" + times + ")?|" + times + ")";
}

// Without two hyphens in a row: "xn--" begins a name in another script, which has rules of its own.
std::string hostname(const std::string& dots) {
  const std::string label = "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?";
  return "(?!.*--)(" + label + R"(\.))" + dots;
}

constexpr const char* kUuid = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
constexpr const char* kIpv6 = "([0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}";

std::string versioned_uuid(char version) {
  return std::string("[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-") + version +
         "[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}";
}

// Its header is read by those who check one: here always {"alg":…,"typ":"JWT"}, of an algorithm that is known.
std::string jwt() {
  const std::string four = "[0-9A-Za-z_-]{4}";
  const std::string rest = "([0-9A-Za-z_-][AQgw]|[0-9A-Za-z_-]{2}[AEIMQUYcgkosw048])";
  return "eyJhbGciOiJ(IUzI1Ni|IUzM4NC|IUzUxMi|SUzI1Ni|FUzI1Ni|QUzI1Ni|FZERTQS)IsInR5cCI6IkpXVCJ9"
         "\\.eyJ[0-9A-Za-z_-](" +
         four + "){1,64}" + rest + "?\\.(" + four + "){1,64}" + rest + "?";
}

std::string email() {
  const std::string local = R"([A-Za-z0-9_+-]{1,24}(\.[A-Za-z0-9_+-]{1,24})?)";
  return local + "@" + hostname("{1,4}") + "[A-Za-z]{2,24}";
}

const char* octet() { return R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))"; }

std::string ipv4() { return std::string("(") + octet() + R"(\.){3})" + octet(); }

// Networks at whole octets, so that no bit of the host is set.
std::string ipv4_network() {
  const std::string dot_octet = std::string(R"(\.)") + octet();
  return std::string(octet()) + R"((\.0\.0\.0/8|)" + dot_octet + R"((\.0\.0/16|)" + dot_octet + R"((\.0/24|)" +
         dot_octet + "/32)))";
}

std::string ipv6_network() { return "([0-9A-Fa-f]{1,4}:){4}:/64|" + std::string(kIpv6) + "/128"; }
std::string ipv4_interface() { return ipv4() + R"(/([12]?\d|3[0-2]))"; }
std::string ipv6_interface() { return std::string(kIpv6) + R"(/([1-9]?\d|1[01]\d|12[0-8]))"; }

// scheme://host, where what follows the host is of the characters that a URI has.
std::string uri() {
  const std::string host = R"(([a-z0-9](-?[a-z0-9])*\.)*[a-z](-?[a-z0-9])*)";
  const std::string character = R"(([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}))";
  return "[a-z][a-z0-9+.-]+://" + host + R"((:[1-9]\d{0,3})?(/)" + character + R"(*)*(\?()" + character +
         R"(|[/?])*)?(#()" + character + "|[/?])*)?";
}

// Regular expressions of one level of groups, the same in all dialects.
std::string regex() {
  const std::string literal = R"([A-Za-z0-9 _,:;=!@#%&<>"'~/-])";
  const std::string set = R"(\[\^?(a-z|A-Z|0-9|[A-Za-z0-9_. ]|\\[dws])+\])";
  const std::string count = R"(([*+?]|\{[1-9]\d?,?\})?)";
  const std::string term = "(" + literal + R"(|\.|\\[dwsDWS.*+?()\[\]{}|^$\\]|)" + set + ")" + count;
  const std::string group = R"(\((\?:)?()" + term + R"()+(\|()" + term + R"()+)*\))" + count;
  return R"(\^?()" + term + "|" + group + R"()*\$?)";
}

const char* json_pointer() { return "(/([^/~]|~[01])*)*"; }

// By name; what stands for a whole text.
std::string whole_pattern(std::string_view format) {
  struct Named {
    std::string_view name;
    std::string (*pattern)();
  };
  static constexpr Named kNamed[] = {
      {"date", [] { return std::string(date()); }},
      {"time", [] { return std::string(time()); }},
      {"date-time", [] { return std::string(date()) + "T" + time(); }},
      {"duration", duration},
      {"uuid", [] { return std::string(kUuid); }},
      {"uuid1", [] { return versioned_uuid('1'); }},
      {"uuid3", [] { return versioned_uuid('3'); }},
      {"uuid4", [] { return versioned_uuid('4'); }},
      {"uuid5", [] { return versioned_uuid('5'); }},
      {"uuid6", [] { return versioned_uuid('6'); }},
      {"uuid7", [] { return versioned_uuid('7'); }},
      {"uuid8", [] { return versioned_uuid('8'); }},
      {"hostname", [] { return hostname("{0,6}") + "[A-Za-z]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"; }},
      {"idn-hostname", [] { return hostname("{0,6}") + "[A-Za-z]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"; }},
      {"email", email},
      {"idn-email", email},
      {"ipv4", ipv4},
      {"ipv6", [] { return std::string(kIpv6); }},
      {"ipv4network", ipv4_network},
      {"ipv6network", ipv6_network},
      {"ipv4interface", ipv4_interface},
      {"ipv6interface", ipv6_interface},
      {"ipvanyaddress", [] { return ipv4() + "|" + kIpv6; }},
      {"ipvanynetwork", [] { return ipv4_network() + "|" + ipv6_network(); }},
      {"ipvanyinterface", [] { return ipv4_interface() + "|" + ipv6_interface(); }},
      {"uri", uri},
      {"url", uri},
      {"iri", uri},
      {"uri-reference", uri},
      {"iri-reference", uri},
      {"uri-template", uri},
      {"multi-host-uri", uri},
      {"json-pointer", [] { return std::string(json_pointer()); }},
      {"relative-json-pointer", [] { return std::string(R"((0|[1-9]\d{0,3})(#|)") + json_pointer() + ")"; }},
      {"regex", regex},
      {"base64",
       [] { return std::string("([0-9A-Za-z+/]{4})*([0-9A-Za-z+/][AQgw]==|[0-9A-Za-z+/]{2}[AEIMQUYcgkosw048]=)?"); }},
      {"byte",
       [] { return std::string("([0-9A-Za-z+/]{4})*([0-9A-Za-z+/][AQgw]==|[0-9A-Za-z+/]{2}[AEIMQUYcgkosw048]=)?"); }},
      {"base64url",
       [] { return std::string("([0-9A-Za-z_-]{4})*([0-9A-Za-z_-][AQgw]==|[0-9A-Za-z_-]{2}[AEIMQUYcgkosw048]=)?"); }},
      {"jwt", jwt},
      {"fraction", [] { return std::string(R"(-?\d{1,9}(/[1-9]\d{0,8})?)"); }},  // of pydantic, as these
      {"name-email", [] { return "[A-Za-z]{1,24}( [A-Za-z]{1,24}){0,3} <" + email() + ">"; }},
      {"color", [] { return std::string("#[0-9a-f]{6}"); }},
      {"phone", [] { return std::string(R"(\+[1-9]\d{6,14})"); }},
  };
  for (const Named& named : kNamed) {
    if (named.name == format) return named.pattern();
  }
  return {};
}

// What names a purpose, not a form.
constexpr std::string_view kAnyText[] = {"password", "binary", "path", "file-path", "directory-path", "textarea"};

}  // namespace

std::optional<std::string> pattern_of_format(std::string_view format) {
  if (std::ranges::find(kAnyText, format) != std::end(kAnyText)) return "";
  const std::string pattern = whole_pattern(format);
  if (pattern.empty()) return std::nullopt;
  return "^(" + pattern + ")$";
}

std::optional<NumberFormat> number_format(std::string_view format) {
  if (format == "int8") return NumberFormat{"-128", "127"};
  if (format == "int16") return NumberFormat{"-32768", "32767"};
  if (format == "int32") return NumberFormat{"-2147483648", "2147483647"};
  if (format == "uint8") return NumberFormat{"0", "255"};
  if (format == "uint16") return NumberFormat{"0", "65535"};
  if (format == "uint32") return NumberFormat{"0", "4294967295"};
  if (format == "uint64") return NumberFormat{"0", ""};
  if (format == "int64" || format == "float" || format == "double") return NumberFormat{};
  return std::nullopt;
}

}  // namespace kvasir::grammar
