// A progress bar on stderr, and only when stderr is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kvasir {

class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();  // wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `note` stands behind the bar: "1.2 GB of 3.0 GB". Redraws at most every 50 ms, and at the end.
  void show(std::uint64_t done, std::uint64_t all, const std::string& note = {});

 private:
  std::string label_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace kvasir
