// Log lines: one line each, as key=value or as JSON. Values may come from outside and hold any bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/http/http_server.h"

namespace kvasir {

enum class LogFormat : std::uint8_t { kText, kJson };

struct LogField {
  std::string_view key;
  std::variant<std::string, std::int64_t, double> value;  // of a text at most 512 bytes are told
};

struct LogEvent {
  std::string_view name;
  std::vector<LogField> fields{};
};

// Without a line's end, and with none in it:
// time=2026-08-01T12:00:00.123Z event=drain key=value …
// {"time":"2026-08-01T12:00:00.123Z","event":"drain","key":"value",…}
std::string log_line(const LogEvent& event, LogFormat format);

std::string now_text();  // "2026-08-01T12:00:00.123Z"

LogEvent event_of(const HttpExchange& exchange);

}  // namespace kvasir
