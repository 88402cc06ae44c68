// A log that cannot hurt who writes to it: see LineFile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "server/line_file.h"
#include "server/log.h"

namespace kvasir {

class Log {
 public:
  struct Options {
    LogFormat format = LogFormat::kText;
    std::filesystem::path file{};   // empty: stderr
    size_t queue_bytes = 1U << 20;  // of lines that wait to be written
  };

  explicit Log(const Options& options);  // throws Error when the file cannot be opened

  // From any thread.
  void write(const LogEvent& event) noexcept;
  void say(std::string_view text) noexcept;  // a line for people, left out of a log that is JSON
  void reopen() noexcept { lines_.reopen(); }
  void flush() noexcept { lines_.flush(); }
  std::int64_t dropped() const noexcept { return lines_.dropped(); }  // lines so far

 private:
  LogFormat format_;
  LineFile lines_;
};

}  // namespace kvasir
