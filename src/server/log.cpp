#include "server/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "server/api/json_fields.h"

namespace kvasir {
namespace {

constexpr size_t kLongestValue = 512;

bool is_plain(char c) { return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '='; }

std::string in_quotes(std::string_view value) {
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

std::string text_of_field(const LogField& field) {
  if (const auto* text = std::get_if<std::string>(&field.value)) return in_quotes(text->substr(0, kLongestValue));
  if (const auto* number = std::get_if<std::int64_t>(&field.value)) return fmt::format("{}", *number);
  return fmt::format("{:.6g}", std::get<double>(field.value));
}

OrderedJson json_of_field(const LogField& field) {
  if (const auto* text = std::get_if<std::string>(&field.value)) return text->substr(0, kLongestValue);
  if (const auto* number = std::get_if<std::int64_t>(&field.value)) return *number;
  return std::get<double>(field.value);
}

}  // namespace

std::string now_text() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(ms / 1000)), ms % 1000);
}

std::string log_line(const LogEvent& event, LogFormat format) {
  if (format == LogFormat::kJson) {
    OrderedJson out{{"time", now_text()}, {"event", std::string(event.name)}};
    for (const LogField& field : event.fields) out[std::string(field.key)] = json_of_field(field);
    return to_text(out);
  }
  std::string out = fmt::format("time={} event={}", now_text(), event.name);
  for (const LogField& field : event.fields) out += fmt::format(" {}={}", field.key, text_of_field(field));
  return out;
}

LogEvent event_of(const HttpExchange& exchange) {
  LogEvent out{"request",
               {{"id", exchange.id},
                {"tenant", exchange.tenant.empty() ? "-" : exchange.tenant},
                {"method", exchange.method},
                {"path", exchange.path},
                {"status", std::int64_t{exchange.status}},
                {"outcome", std::string(exchange.outcome)},
                {"bytes", static_cast<std::int64_t>(exchange.bytes)},
                {"ms", static_cast<double>(static_cast<std::int64_t>(exchange.seconds * 1e4)) / 10}}};
  if (exchange.tokens) {
    out.fields.push_back({"prompt_tokens", exchange.tokens->prompt});
    out.fields.push_back({"cached_tokens", exchange.tokens->cached});
    out.fields.push_back({"answer_tokens", exchange.tokens->answer});
  }
  return out;
}

}  // namespace kvasir
