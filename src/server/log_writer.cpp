#include "server/log_writer.h"

#include <string>

namespace kvasir {
namespace {

LineFile::Options lines_of(const Log::Options& options) {
  LineFile::Options out{options.file, options.queue_bytes, "log file", "--log-file", {}, {}, {}};
  out.lost = [format = options.format](std::int64_t lines) {
    return log_line({"log_lost", {{"lines", lines}}}, format);
  };
  out.not_opened = [format = options.format, file = options.file.string()](const std::string& why) {
    return log_line({"log_reopen_failed", {{"file", file}, {"error", why}}}, format);
  };
  return out;
}

}  // namespace

Log::Log(const Options& options) : format_(options.format), lines_(lines_of(options)) {}

void Log::write(const LogEvent& event) noexcept {
  try {
    lines_.write(log_line(event, format_));
  } catch (...) {  // no memory for a line
    lines_.miss();
  }
}

void Log::say(std::string_view text) noexcept {
  if (format_ == LogFormat::kJson) return;
  try {
    lines_.write(std::string(text));
  } catch (...) {
    lines_.miss();
  }
}

}  // namespace kvasir
