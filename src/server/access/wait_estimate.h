// When a place will be free, as told to those who found none.
//
// Places are given back at some rate. Whoever is refused comes back later, so each is told its turn in a line of
// which only the length is kept: ten who are refused at once are not sent back at the same moment.
//
//   rate      places given back lately, over the time in which they were
//   line      who was refused and has not been due yet; it shrinks by the rate
#pragma once

#include <chrono>
#include <cstdint>

namespace kvasir {

class WaitEstimate {
 public:
  using Clock = std::chrono::steady_clock;
  // Clients that are told more take it for a mistake, and come back after half a second.
  static constexpr int kMostSeconds = 59;

  explicit WaitEstimate(Clock::time_point now) : at_(now) {}

  // So many places were given back.
  void freed(Clock::time_point now, std::int64_t places);

  // Whole seconds, from 1 to kMostSeconds, until as many more places are free as were asked for.
  int refused(Clock::time_point now, std::int64_t places);

 private:
  void age(Clock::time_point now);

  Clock::time_point at_;
  double freed_ = 0;  // both fade together: by half in kHalfLife
  double seconds_ = 0;
  double line_ = 0;
};

}  // namespace kvasir
