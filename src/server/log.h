// Log lines: one line each, key=value, values from outside quoted and escaped.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "server/http_server.h"

namespace kvasir {

// time=2026-08-01T12:00:00Z event=drain key=value …
std::string log_line(std::string_view event, std::initializer_list<std::pair<std::string_view, std::string>> fields);

std::string log_line(const HttpExchange& exchange);

}  // namespace kvasir
