// A file of lines that cannot hurt who writes to it: it never throws, never waits and never ends the process.
//
// Lines go through a bounded queue to a thread of its own. What cannot be written (a full disk, a reader that is gone
// or has stopped reading) is dropped and counted, and a line says how many were lost once writing works again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace kvasir {

class LineFile {
 public:
  struct Options {
    std::filesystem::path file{};   // empty: stderr
    size_t queue_bytes = 1U << 20;  // of lines that wait to be written
    std::string what;               // "log file": as errors name it
    std::string option;             // "--log-file"
    // Lines without their ends, called on the file's own thread: they outlive it.
    std::function<std::string(std::int64_t lines)> lost;            // so many were
    std::function<std::string(const std::string& why)> not_opened;  // again; the old file goes on. Empty: nothing
    std::function<std::string()> heading;                           // of each file that is opened; empty: none
  };

  explicit LineFile(Options options);         // throws Error when the file cannot be opened, as
  static void check(const Options& options);  // this does, and nothing else
  ~LineFile();                                // writes what waits, for a second at most
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // From any thread.
  void write(std::string line) noexcept;  // its end is added
  void miss() noexcept;                   // a line that could not be made
  void reopen() noexcept;                 // the file, by its name: after it was moved away
  void flush() noexcept;                  // waits for what was written before, for a second at most
  std::int64_t dropped() const noexcept;  // lines so far

 private:
  struct State;
  std::shared_ptr<State> state_;  // also the thread's, which may hang in a write for longer than this lives
  std::thread thread_;
};

}  // namespace kvasir
