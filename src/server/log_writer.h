// A log that cannot hurt who writes to it: it never throws, never waits and never ends the process.
//
// Lines go through a bounded queue to a thread of its own. What cannot be written (a full disk, a reader that is gone
// or has stopped reading) is dropped and counted, and a line says how many were lost once writing works again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "server/log.h"

namespace kvasir {

class Log {
 public:
  struct Options {
    LogFormat format = LogFormat::kText;
    std::filesystem::path file{};   // empty: stderr
    size_t queue_bytes = 1U << 20;  // of lines that wait to be written
  };

  explicit Log(Options options);  // throws Error when the file cannot be opened
  ~Log();                         // writes what waits, for a second at most
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // From any thread.
  void write(const LogEvent& event) noexcept;
  void say(std::string_view text) noexcept;  // a line for people, left out of a log that is JSON
  void reopen() noexcept;                    // the file, by its name: after it was moved away
  void flush() noexcept;                     // waits for what was written before, for a second at most
  std::int64_t dropped() const noexcept;     // lines so far

 private:
  struct State;
  Options options_;
  std::shared_ptr<State> state_;  // also the thread's, which may hang in a write for longer than this lives
  std::thread thread_;
};

}  // namespace kvasir
