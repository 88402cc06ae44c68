#include "server/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace kvasir {
namespace {

bool is_plain(char c) { return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '='; }

std::string in_quotes(std::string_view value) {
  constexpr size_t kLongest = 512;
  value = value.substr(0, kLongest);
  if (!value.empty() && std::ranges::all_of(value, is_plain)) return std::string(value);
  std::string out = "\"";
  for (const char c : value) {
    if (is_plain(c) || c == ' ' || c == '=') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out + '"';
}

}  // namespace

std::string log_line(std::string_view event, std::initializer_list<std::pair<std::string_view, std::string>> fields) {
  std::string out = fmt::format("time={:%Y-%m-%dT%H:%M:%SZ} event={}", fmt::gmtime(std::time(nullptr)), event);
  for (const auto& [key, value] : fields) out += fmt::format(" {}={}", key, in_quotes(value));
  return out;
}

std::string log_line(const HttpExchange& exchange) {
  return log_line("request", {{"id", exchange.id},
                              {"method", exchange.method},
                              {"path", exchange.path},
                              {"status", fmt::format("{}", exchange.status)},
                              {"outcome", std::string(exchange.outcome)},
                              {"bytes", fmt::format("{}", exchange.bytes)},
                              {"ms", fmt::format("{:.1f}", exchange.seconds * 1e3)}});
}

}  // namespace kvasir
