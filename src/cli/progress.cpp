#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace kvasir {
namespace {

int terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::string label) : label_(std::move(label)), terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

void Progress::show(std::uint64_t done, std::uint64_t all, const std::string& note) {
  if (!terminal_ || all == 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && done < all && now - last_ < std::chrono::milliseconds(50)) return;
  last_ = now;
  drawn_ = true;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(all));
  const std::string left = fmt::format("{} {:3.0f}% ", label_, share * 100);
  const int room = terminal_width() - static_cast<int>(left.size() + note.size()) - 5;
  const int cells = std::clamp(room, 5, 40);
  const int full = static_cast<int>(share * cells);
  std::string bar;
  for (int i = 0; i < cells; ++i) bar += i < full ? "█" : " ";
  fmt::print(stderr, "\r{}▕{}▏ {}\033[K", left, bar, note);
  std::fflush(stderr);
}

}  // namespace kvasir
