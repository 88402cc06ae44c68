// What kvasir serve --trace writes: an engine's requests as lines of a file, which cannot hurt who is served.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "server/line_file.h"
#include "trace/trace_recorder.h"

namespace kvasir {

class TraceFile {
 public:
  struct Options {
    std::filesystem::path file;
    std::string model;   // as --model has it
    std::string device;  // in words
    TraceConfig::Samples samples = TraceConfig::Samples::kOnHost;
    size_t queue_bytes = size_t{16} << 20;  // of lines that wait to be written
  };

  // The engine outlives this, and does not run yet; it runs no more when this goes. Throws Error when the file cannot
  // be opened.
  TraceFile(Engine& engine, const Options& options);
  static void check(const std::filesystem::path& file);  // throws the same, before there is an engine

  void reopen() noexcept { lines_.reopen(); }                         // after it was moved away; from any thread
  std::int64_t dropped() const noexcept { return lines_.dropped(); }  // lines so far

 private:
  LineFile lines_;
  TraceRecorder recorder_;
};

}  // namespace kvasir
