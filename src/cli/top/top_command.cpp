#include "cli/top/top_command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/client/event_stream.h"
#include "cli/option_group.h"
#include "cli/top/terminal.h"
#include "cli/top/views.h"

namespace kvasir {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kFrame = 100ms;   // of a flash, nobody sees more
constexpr auto kRetry = 1000ms;  // after a connection was lost
constexpr int kPlainWidth = 110;
constexpr int kPlainRows = 60;
constexpr double kLongest = LivePicture::kHistorySeconds;

struct TopOptions {
  std::string url = "http://127.0.0.1:8080";
  std::string key;
  bool once = false;
};

double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

[[noreturn]] void fail_refused(const EventStream::Refused& refused, const TopOptions& options) {
  if (refused.status == 401)
    fail_usage(options.key.empty() ? "the server asks for a key" : "the server does not know this key", "--api-key",
               "give one that kvasir keys add made, or set KVASIR_API_KEY");
  if (refused.status == 429)
    fail_system("as many watch as the server lets", options.url, "close another page or top");
  fail_system(fmt::format("the server answered {}", refused.status), options.url,
              "is this the address of a kvasir server?");
}

std::unique_ptr<EventStream> watch(const TopOptions& options) {
  return std::make_unique<EventStream>(parse_url(options.url), "/kvasir/live", options.key);
}

void take_from(EventStream& stream, LivePicture& picture) {
  for (const std::string& event : stream.read()) picture.take(event, seconds_now());
}

// What is, without colours, once the first second's rates are known.
void print_once(const TopOptions& options) {
  LivePicture picture;
  const std::unique_ptr<EventStream> stream = watch(options);
  try {
    while (!picture.begun() || picture.rates().empty()) take_from(*stream, picture);
  } catch (const EventStream::Refused& refused) {
    fail_refused(refused, options);
  }
  TopChoice choice;
  choice.plain = true;
  Canvas canvas(kPlainWidth, kPlainRows);
  draw_top({picture, choice, seconds_now(), "live"}, canvas);
  int rows = kPlainRows;
  while (rows > 1 && canvas.plain(rows - 1).empty()) --rows;
  for (int y = 0; y < rows; ++y) fmt::print("{}\n", canvas.plain(y));
}

template <class Value>
Value next_of(Value value, int count) {
  return static_cast<Value>((static_cast<int>(value) + 1) % count);
}

// The picture on a terminal, until somebody leaves.
class TopScreen {
 public:
  explicit TopScreen(const TopOptions& options) : options_(options), stream_(watch(options)) {}

  void run() {
    connect_first();
    Terminal terminal;
    while (!ended_) {
      draw(terminal);
      const int socket = stream_ ? stream_->descriptor() : -1;
      handle(terminal.wait(socket, kFrame));
      if (!stream_ && Clock::now() - lost_ > kRetry) reconnect();
    }
  }

 private:
  // Before the screen is taken, so that what is wrong is said below the command.
  void connect_first() {
    try {
      while (!picture_.begun()) take_from(*stream_, picture_);
    } catch (const EventStream::Refused& refused) {
      fail_refused(refused, options_);
    }
  }

  void draw(Terminal& terminal) {
    const auto now = Clock::now();
    if (now - drawn_ < kFrame && !urgent_) return;
    drawn_ = now;
    urgent_ = false;
    if (!held_) at_ = seconds_now();
    const Box size = terminal.size();
    Canvas canvas(size.width, size.height);
    draw_top({held_ ? *held_ : picture_, choice_, at_, held_ ? "held" : stream_ ? "live" : "no connection"}, canvas);
    terminal.show(canvas);
  }

  void reconnect() {
    lost_ = Clock::now();
    try {
      stream_ = watch(options_);
    } catch (const Error&) {
      stream_.reset();
    }
  }

  void read() {
    try {
      take_from(*stream_, picture_);
    } catch (const EventStream::Refused& refused) {
      if (refused.status == 401) fail_refused(refused, options_);
      drop();
    } catch (const Error&) {
      drop();
    }
  }

  void drop() {
    stream_.reset();
    lost_ = Clock::now();
    urgent_ = true;
  }

  void handle(const TerminalEvent& event) {
    using Kind = TerminalEvent::Kind;
    if (event.kind == Kind::kSocket) return read();
    if (event.kind == Kind::kNothing) return;
    urgent_ = true;
    if (event.kind == Kind::kEnd) ended_ = true;
    if (event.kind == Kind::kKey) press(event.key);
  }

  void press(const std::string& key) {
    const int newest = static_cast<int>((held_ ? *held_ : picture_).finished().size()) - 1;
    if (key == "q") ended_ = true;
    if (key == "?" || key == "h") choice_.help = !choice_.help;
    if (key == "tab") choice_.page = next_of(choice_.page, 5);
    if (key == "c") choice_.colour_by = next_of(choice_.colour_by, 4);
    if (key == "up") choice_.chosen = std::max(choice_.chosen - 1, -1);
    if (key == "down") choice_.chosen = std::min(choice_.chosen + 1, newest);
    if (key == "escape") choice_.chosen = -1, choice_.help = false;
    if (key == "+") choice_.span = std::max(choice_.span / 2, 7.5);
    if (key == "-") choice_.span = std::min(choice_.span * 2, kLongest);
    if (key == "left") choice_.back = std::min(choice_.back + choice_.span / 4, kLongest);
    if (key == "right") choice_.back = std::max(choice_.back - choice_.span / 4, 0.0);
    if (key == " ") hold();
    choose_page(key);
  }

  void choose_page(const std::string& key) {
    constexpr std::string_view kNumbers = "12345";
    constexpr std::string_view kLetters = "ablrt";
    if (key.size() != 1) return;
    const size_t page = std::min(kNumbers.find(key), kLetters.find(key));
    if (page == std::string_view::npos) return;
    choice_.page = static_cast<TopPage>(page);
    choice_.help = false;
  }

  void hold() {
    if (held_) {
      held_.reset();
    } else {
      held_ = picture_;
    }
  }

  const TopOptions& options_;
  std::unique_ptr<EventStream> stream_;  // null: lost
  LivePicture picture_;
  std::optional<LivePicture> held_;  // what is shown instead
  TopChoice choice_;
  Clock::time_point drawn_{};
  Clock::time_point lost_{};
  double at_ = 0;
  bool urgent_ = true;
  bool ended_ = false;
};

}  // namespace

void add_top_command(CLI::App& app) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* command = app.add_subcommand("top", "Watch a running server: blocks, lanes, rates, requests");
  const OptionGroup group(*command, "Server");
  group.option_with_default("--url", options->url, "Its address")->envname("KVASIR_URL");
  group.option("--api-key", options->key, "A tenant's key, or an operator's, where the server uses keys")
      ->envname("KVASIR_API_KEY");
  group.flag("--once", options->once, "Print what is, and end; so it does where it writes to no terminal");
  command->callback([options] {
    const bool terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
    if (options->once || !terminal) return print_once(*options);
    TopScreen(*options).run();
  });
}

}  // namespace kvasir
