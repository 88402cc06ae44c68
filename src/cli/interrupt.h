// Ctrl-C while an answer is being written.
#pragma once

namespace kvasir {

// While one of these lives, Ctrl-C sets a flag instead of ending the process; a second one before the flag was read
// ends it as usual.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  bool interrupted() const;
};

}  // namespace kvasir
