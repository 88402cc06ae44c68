// What time it is, for whoever must also run where time is only counted: a replay has a clock of its own.
#pragma once

#include <chrono>

namespace kvasir {

class TimeSource {
 public:
  TimeSource() = default;
  TimeSource(const TimeSource&) = delete;
  TimeSource& operator=(const TimeSource&) = delete;
  virtual ~TimeSource() = default;

  virtual double now() const = 0;  // seconds since some moment; from any thread, and never less than before
};

class SteadyTime final : public TimeSource {
 public:
  double now() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }

 private:
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace kvasir
