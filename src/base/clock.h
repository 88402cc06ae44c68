// What time it is, for whoever must also run where time is only counted: a replay has a clock of its own.
#pragma once

#include <chrono>

namespace kvasir {

class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  virtual double now() const = 0;  // seconds since some moment; from any thread, and never less than before
};

class SteadyClock final : public Clock {
 public:
  double now() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }

 private:
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace kvasir
