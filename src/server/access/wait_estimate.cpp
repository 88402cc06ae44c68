#include "server/access/wait_estimate.h"

#include <algorithm>
#include <cmath>

namespace kvasir {
namespace {

constexpr double kHalfLife = 20;  // seconds: some answers' length

}  // namespace

void WaitEstimate::age(Clock::time_point now) {
  const double passed = std::max(std::chrono::duration<double>(now - at_).count(), 0.0);
  at_ = std::max(at_, now);
  line_ = std::max(line_ - (seconds_ > 0 ? passed * freed_ / seconds_ : 0), 0.0);
  const double left = std::exp2(-passed / kHalfLife);
  freed_ *= left;
  seconds_ = seconds_ * left + passed;
}

void WaitEstimate::freed(Clock::time_point now, std::int64_t places) {
  age(now);
  freed_ += static_cast<double>(places);
}

int WaitEstimate::refused(Clock::time_point now, std::int64_t places) {
  age(now);
  line_ = std::min(line_ + static_cast<double>(places), 1e9);
  // Before the first place was given back, none was in all the time there was: it may be the next.
  const double rate = std::max(freed_, 1.0) / std::max(seconds_, 1e-3);
  return static_cast<int>(std::clamp(std::ceil(line_ / rate), 1.0, double{kMostSeconds}));
}

}  // namespace kvasir
