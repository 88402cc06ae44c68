#include "cli/top/terminal.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace kvasir {
namespace {

constexpr std::string_view kTake = "\x1b[?1049h\x1b[?25l\x1b[2J";      // the other screen, no cursor
constexpr std::string_view kGiveBack = "\x1b[0m\x1b[?25h\x1b[?1049l";  // what was there before
constexpr std::string_view kBegin = "\x1b[?2026h";                     // a frame is shown when it is whole, …
constexpr std::string_view kEnd = "\x1b[?2026l";                       // … where terminals know this
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kSequences{{{"\x1b[A", "up"},
                                                                                   {"\x1b[B", "down"},
                                                                                   {"\x1b[C", "right"},
                                                                                   {"\x1b[D", "left"},
                                                                                   {"\x1bOA", "up"},
                                                                                   {"\x1bOB", "down"},
                                                                                   {"\x1bOC", "right"},
                                                                                   {"\x1bOD", "left"}}};

void write_out(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;  // nobody is there to see it
    bytes.remove_prefix(static_cast<size_t>(done));
  }
}

sigset_t terminal_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&set, number);
  return set;
}

}  // namespace

Terminal::Terminal() {
  if (::tcgetattr(STDIN_FILENO, &before_) != 0)
    fail_system(fmt::format("the terminal cannot be used: {}", std::strerror(errno)), {}, "use --once");
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // stopped, it would leave the terminal like this
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  const sigset_t set = terminal_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  write_out(kTake);
}

Terminal::~Terminal() {
  write_out(kGiveBack);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  const sigset_t set = terminal_signals();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::close(signals_);
}

Box Terminal::size() const {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {0, 0, 80, 24};
  return {0, 0, size.ws_col, size.ws_row};
}

void Terminal::show(const Canvas& canvas) {
  const std::string changes = canvas.changes_from(shown_);
  if (!changes.empty()) write_out(fmt::format("{}{}{}", kBegin, changes, kEnd));
  shown_ = canvas;
}

std::string Terminal::read_key() {
  std::array<char, 64> bytes{};
  const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (got > 0) keys_.append(bytes.data(), static_cast<size_t>(got));
  if (keys_.empty()) return {};
  for (const auto& [sequence, name] : kSequences) {
    if (!keys_.starts_with(sequence)) continue;
    keys_.erase(0, sequence.size());
    return std::string(name);
  }
  const char first = keys_[0];
  if (first == '\x1b') {  // alone, or before what nobody asked for
    const bool alone = keys_.size() == 1;
    keys_.clear();
    return alone ? "escape" : "";
  }
  keys_.erase(0, 1);
  if (first == '\t') return "tab";
  if (first == '\r' || first == '\n') return "enter";
  return std::string(1, first);
}

TerminalEvent Terminal::wait(int socket, std::chrono::milliseconds patience) {
  using Kind = TerminalEvent::Kind;
  if (!keys_.empty()) return {Kind::kKey, read_key()};
  std::array<pollfd, 3> sources{{{STDIN_FILENO, POLLIN, 0}, {signals_, POLLIN, 0}, {socket, POLLIN, 0}}};
  if (::poll(sources.data(), sources.size(), static_cast<int>(patience.count())) <= 0) return {};
  if (sources[1].revents != 0) {
    signalfd_siginfo told{};
    if (::read(signals_, &told, sizeof told) != static_cast<ssize_t>(sizeof told)) return {};
    return {told.ssi_signo == SIGWINCH ? Kind::kResized : Kind::kEnd, {}};
  }
  if ((sources[0].revents & (POLLHUP | POLLERR)) != 0) return {Kind::kEnd, {}};
  if (sources[0].revents != 0) return {Kind::kKey, read_key()};
  return {Kind::kSocket, {}};
}

}  // namespace kvasir
