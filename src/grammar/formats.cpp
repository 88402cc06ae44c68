#include "grammar/formats.h"

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

std::string hostname(const std::string& dots) {
  const std::string label = "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?";
  return "(" + label + R"(\.))" + dots;
}

}  // namespace

std::optional<std::string> pattern_of_format(std::string_view format) {
  const auto whole = [](const std::string& pattern) { return "^" + pattern + "$"; };
  if (format == "date") return whole(date());
  if (format == "time") return whole(time());
  if (format == "date-time") return whole(std::string(date()) + "T" + time());
  if (format == "duration") return whole(duration());
  if (format == "uuid") return whole("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}");
  if (format == "hostname") return whole(hostname("{0,6}") + "[A-Za-z]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?");
  if (format == "email") {
    const std::string local = R"([A-Za-z0-9_+-]{1,24}(\.[A-Za-z0-9_+-]{1,24})?)";
    return whole(local + "@" + hostname("{1,4}") + "[A-Za-z]{2,24}");
  }
  if (format == "ipv4") {
    const std::string octet = R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
    return whole("(" + octet + R"(\.){3})" + octet);
  }
  if (format == "ipv6") return whole("([0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}");
  return std::nullopt;
}

}  // namespace kvasir::grammar
