#include "grammar/formats.h"

#include <array>
#include <utility>

namespace kvasir::grammar {
namespace {

// Days that their month has; February 29 in leap years.
#define KVASIR_DATE                                                                              \
  "(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))|" \
  "(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)"
#define KVASIR_TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define KVASIR_OCTET "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define KVASIR_LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kFormats{{
    {"date", "^" KVASIR_DATE "$"},
    {"time", "^" KVASIR_TIME "$"},
    {"date-time", "^" KVASIR_DATE "T" KVASIR_TIME "$"},
    {"duration",
     "^P(\\d{1,9}W|(\\d{1,9}Y(\\d{1,9}M(\\d{1,9}D)?)?|\\d{1,9}M(\\d{1,9}D)?|\\d{1,9}D)"
     "(T(\\d{1,9}H(\\d{1,9}M(\\d{1,9}S)?)?|\\d{1,9}M(\\d{1,9}S)?|\\d{1,9}S))?|"
     "T(\\d{1,9}H(\\d{1,9}M(\\d{1,9}S)?)?|\\d{1,9}M(\\d{1,9}S)?|\\d{1,9}S))$"},
    {"uuid", "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"},
    {"email", "^[A-Za-z0-9_+-]{1,24}(\\.[A-Za-z0-9_+-]{1,24}){0,1}@(" KVASIR_LABEL "\\.){1,4}[A-Za-z]{2,24}$"},
    {"hostname", "^(" KVASIR_LABEL "\\.){0,6}" KVASIR_LABEL "$"},
    {"ipv4", "^(" KVASIR_OCTET "\\.){3}" KVASIR_OCTET "$"},
    {"ipv6", "^([0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}$"},
}};

#undef KVASIR_DATE
#undef KVASIR_TIME
#undef KVASIR_OCTET
#undef KVASIR_LABEL

}  // namespace

std::optional<std::string_view> pattern_of_format(std::string_view format) {
  for (const auto& [name, pattern] : kFormats) {
    if (name == format) return pattern;
  }
  return std::nullopt;
}

}  // namespace kvasir::grammar
