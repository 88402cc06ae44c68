#include "server/line_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kvasir {
namespace {

// A pipe without a reader is refused here instead of waited for. -1: errno says why.
int open_lines(const std::filesystem::path& file) {
  return ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
}

int checked_open(const LineFile::Options& options) {
  const int fd = open_lines(options.file);
  if (fd >= 0) return fd;
  fail_usage(fmt::format("the {} cannot be opened: {}", options.what, std::strerror(errno)), options.file.string(),
             fmt::format("use a path that can be written, or leave {} out", options.option));
}

}  // namespace

struct LineFile::State {
  using Clock = std::chrono::steady_clock;

  explicit State(Options wanted) : options(std::move(wanted)) {}
  ~State() {
    if (fd != STDERR_FILENO) ::close(fd);
  }

  void add(std::string line);
  void run();
  void open_again();
  void write_heading();
  void write_line(const std::string& line);
  bool put(std::string_view bytes);
  bool gives_up() const { return reopening || Clock::now() >= Clock::time_point(Clock::duration(give_up_at.load())); }

  const Options options;
  std::atomic<std::int64_t> dropped = 0;
  std::atomic<bool> reopening = false;
  std::atomic<Clock::rep> give_up_at = Clock::duration::max().count();  // what is not written then never will be

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> waiting;  // under mutex; lines with their ends
  size_t waiting_bytes = 0;          // under mutex
  bool writing = false;              // under mutex: lines that were waiting
  bool ending = false;               // under mutex
  bool ended = false;                // under mutex

  // The thread's alone.
  int fd = STDERR_FILENO;
  std::int64_t told = 0;  // of the lines that were dropped
  bool torn = false;      // the last line has no end
};

void LineFile::State::add(std::string line) {
  line += '\n';
  {
    const std::lock_guard lock(mutex);
    if (waiting_bytes + line.size() > options.queue_bytes) {
      ++dropped;
      return;
    }
    waiting_bytes += line.size();
    waiting.push_back(std::move(line));
  }
  changed.notify_all();
}

void LineFile::State::run() {
  write_heading();
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return ending || reopening || !waiting.empty(); });
    if (waiting.empty() && !reopening) break;
    const std::vector<std::string> lines = std::exchange(waiting, {});
    waiting_bytes = 0;
    writing = true;
    lock.unlock();
    for (const std::string& line : lines) write_line(line);
    if (reopening) open_again();
    lock.lock();
    writing = !waiting.empty();
    if (!writing) changed.notify_all();
  }
  ended = true;
  changed.notify_all();
}

void LineFile::State::write_heading() {
  if (options.heading) write_line(options.heading() + '\n');
}

// The old file stays where the new one cannot be opened: some lines are better than none.
void LineFile::State::open_again() {
  reopening = false;
  if (options.file.empty()) return;
  const int opened = open_lines(options.file);
  if (opened < 0) {
    if (options.not_opened) write_line(options.not_opened(std::strerror(errno)) + '\n');
    return;
  }
  ::close(std::exchange(fd, opened));
  torn = false;
  write_heading();
}

void LineFile::State::write_line(const std::string& line) {
  const std::int64_t lost = dropped.load() - told;
  if (lost > 0) {
    if (!put(options.lost(lost) + '\n')) {
      ++dropped;
      return;
    }
    told += lost;
  }
  if (!put(line)) ++dropped;
}

// A pipe that can be written to takes PIPE_BUF bytes without waiting.
bool LineFile::State::put(std::string_view bytes) {
  if (torn && ::write(fd, "\n", 1) == 1) torn = false;
  while (!bytes.empty()) {
    pollfd ready{fd, POLLOUT, 0};
    const int found = ::poll(&ready, 1, 100);
    if (found == 0 || (found < 0 && errno == EINTR)) {
      if (gives_up()) return false;
      continue;
    }
    const ssize_t written = ::write(fd, bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) {
      if (gives_up()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(errno == EAGAIN ? 10 : 0));
      continue;
    }
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
    torn = !bytes.empty();
  }
  return true;
}

void LineFile::check(const Options& options) {
  if (!options.file.empty()) ::close(checked_open(options));
}

LineFile::LineFile(Options options) : state_(std::make_shared<State>(std::move(options))) {
  if (!state_->options.file.empty()) state_->fd = checked_open(state_->options);
  // No signal is this thread's: not those the server waits for, and not the one a pipe without a reader sends.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([state = state_] { state->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LineFile::~LineFile() {
  constexpr auto kPatience = std::chrono::seconds(1);
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->give_up_at = (State::Clock::now() + kPatience).time_since_epoch().count();
  state_->changed.notify_all();
  const bool ended = state_->changed.wait_for(lock, 2 * kPatience, [this] { return state_->ended; });
  lock.unlock();
  ended ? thread_.join() : thread_.detach();
}

void LineFile::write(std::string line) noexcept {
  try {
    state_->add(std::move(line));
  } catch (...) {  // no memory for a line
    ++state_->dropped;
  }
}

void LineFile::miss() noexcept { ++state_->dropped; }

void LineFile::reopen() noexcept {
  {
    const std::lock_guard lock(state_->mutex);
    state_->reopening = true;
  }
  state_->changed.notify_all();
}

void LineFile::flush() noexcept {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, std::chrono::seconds(1),
                           [this] { return state_->waiting.empty() && !state_->writing; });
}

std::int64_t LineFile::dropped() const noexcept { return state_->dropped; }

}  // namespace kvasir
