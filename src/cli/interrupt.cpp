#include "cli/interrupt.h"

#include <csignal>

namespace kvasir {
namespace {

// A signal handler has nowhere else to leave its word: the one global of the program.
volatile std::sig_atomic_t interrupts = 0;

void on_interrupt(int) {
  interrupts = interrupts + 1;
  if (interrupts > 1) std::signal(SIGINT, SIG_DFL);
}

}  // namespace

InterruptScope::InterruptScope() {
  interrupts = 0;
  std::signal(SIGINT, on_interrupt);
}

InterruptScope::~InterruptScope() { std::signal(SIGINT, SIG_DFL); }

bool InterruptScope::interrupted() const { return interrupts > 0; }

}  // namespace kvasir
