#include "server/log_writer.h"

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
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kvasir {
namespace {

// A pipe without a reader is refused here instead of waited for. -1: errno says why.
int open_log(const std::filesystem::path& file) {
  return ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
}

}  // namespace

struct Log::State {
  using Clock = std::chrono::steady_clock;

  explicit State(Options wanted) : options(std::move(wanted)) {}
  ~State() {
    if (fd != STDERR_FILENO) ::close(fd);
  }

  void add(std::string line);
  void run();
  void open_again();
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

void Log::State::add(std::string line) {
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

void Log::State::run() {
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

// The old file stays where the new one cannot be opened: some log is better than none.
void Log::State::open_again() {
  reopening = false;
  if (options.file.empty()) return;
  const int opened = open_log(options.file);
  if (opened < 0) {
    const LogEvent event{"log_reopen_failed", {{"file", options.file.string()}, {"error", std::strerror(errno)}}};
    return write_line(log_line(event, options.format) + '\n');
  }
  ::close(std::exchange(fd, opened));
  torn = false;
}

void Log::State::write_line(const std::string& line) {
  const std::int64_t lost = dropped.load() - told;
  if (lost > 0) {
    if (!put(log_line({"log_lost", {{"lines", lost}}}, options.format) + '\n')) {
      ++dropped;
      return;
    }
    told += lost;
  }
  if (!put(line)) ++dropped;
}

// A pipe that can be written to takes PIPE_BUF bytes without waiting.
bool Log::State::put(std::string_view bytes) {
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

Log::Log(Options options) : options_(std::move(options)), state_(std::make_shared<State>(options_)) {
  if (!options_.file.empty()) {
    state_->fd = open_log(options_.file);
    if (state_->fd < 0) {
      state_->fd = STDERR_FILENO;
      fail_usage(fmt::format("the log file cannot be opened: {}", std::strerror(errno)), options_.file.string(),
                 "use a path that can be written, or leave --log-file out");
    }
  }
  // No signal is this thread's: not those the server waits for, and not the one a pipe without a reader sends.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([state = state_] { state->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Log::~Log() {
  constexpr auto kPatience = std::chrono::seconds(1);
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->give_up_at = (State::Clock::now() + kPatience).time_since_epoch().count();
  state_->changed.notify_all();
  const bool ended = state_->changed.wait_for(lock, 2 * kPatience, [this] { return state_->ended; });
  lock.unlock();
  ended ? thread_.join() : thread_.detach();
}

void Log::write(const LogEvent& event) noexcept {
  try {
    state_->add(log_line(event, options_.format));
  } catch (...) {  // no memory for a line
    ++state_->dropped;
  }
}

void Log::say(std::string_view text) noexcept {
  if (options_.format == LogFormat::kJson) return;
  try {
    state_->add(std::string(text));
  } catch (...) {
    ++state_->dropped;
  }
}

void Log::reopen() noexcept {
  {
    const std::lock_guard lock(state_->mutex);
    state_->reopening = true;
  }
  state_->changed.notify_all();
}

void Log::flush() noexcept {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, std::chrono::seconds(1),
                           [this] { return state_->waiting.empty() && !state_->writing; });
}

std::int64_t Log::dropped() const noexcept { return state_->dropped; }

}  // namespace kvasir
