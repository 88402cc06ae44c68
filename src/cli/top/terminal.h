// The terminal while a program has all of it: keys come one at a time, nothing scrolls, and it is given back as it
// was.
#pragma once

#include <termios.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "cli/top/canvas.h"

namespace kvasir {

// What to do next, as somebody pressed or the system said.
struct TerminalEvent {
  enum class Kind : std::uint8_t { kNothing, kKey, kResized, kEnd, kSocket };
  Kind kind = Kind::kNothing;
  std::string key;  // a character, or "up", "down", "left", "right", "tab", "enter", "escape"
};

class Terminal {
 public:
  // Requires stdin and stdout to be a terminal. Throws Error where it cannot be used so.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Box size() const;
  void show(const Canvas& canvas);

  // Waits for a key, a signal, something to read from `socket` (-1: none), or so long.
  TerminalEvent wait(int socket, std::chrono::milliseconds patience);

 private:
  std::string read_key();

  termios before_{};
  int signals_ = -1;  // a descriptor of those that it waits for
  std::string keys_;  // read, and not told yet
  Canvas shown_{1, 1};
};

}  // namespace kvasir
