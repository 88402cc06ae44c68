// What a drafter that runs passes may do, by what came of its drafts.
//
// Whether a draft pays is estimated before it is made, and what it saved or took is measured afterwards, beside an
// estimate of a plain step. So a drafter whose estimates flatter it is found out: it is believed as long as what it
// saved is more than what it took. Where it does not seem to pay, or is not believed, it is tried for credit, which
// is a small part of the time that steps take: so tries are as rare as they are dear.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvasir {

class DraftBalance {
 public:
  // A step that decodes took so long, or would have without drafts.
  void add_step(double plain_seconds) {
    step_seconds_ += steps_ == 0 ? plain_seconds : kNew * (plain_seconds - step_seconds_);
    ++steps_;
    add(credit_, kShare * plain_seconds);
    add(saved_, kShare * plain_seconds);
  }
  void guessed(std::int64_t tokens) { guessed_ += tokens; }
  // A try took so long, or reading what the drafter had not read of a text.
  void spend(double seconds) { add(credit_, -seconds); }
  // A draft that should have paid saved so much: below 0, it took that. A step that was interrupted says little.
  void book(double seconds) { add(saved_, std::max(seconds, -2 * step_seconds_)); }

  bool believed() const { return fresh() || saved_ >= 0; }
  bool may_spend(double seconds) const { return fresh() || credit_ >= seconds; }

 private:
  static constexpr double kShare = 0.01;            // of the time that steps take
  static constexpr double kMost = 8;                // steps: what may be lost at once by who was right for long
  static constexpr double kLeast = -100;            // steps: it is tried again some day
  static constexpr double kNew = 0.05;              // of an average
  static constexpr std::int64_t kFirstTokens = 48;  // on trust: of who has said too little to be known

  bool fresh() const { return guessed_ < kFirstTokens; }
  void add(double& account, double seconds) const {
    account = std::clamp(account + seconds, kLeast * step_seconds_, kMost * step_seconds_);
  }

  double credit_ = 0;
  double saved_ = 0;
  double step_seconds_ = 0;  // of a plain step, the average
  std::int64_t steps_ = 0;
  std::int64_t guessed_ = 0;
};

}  // namespace kvasir
