#include "cli/chat.h"

#include <editline/readline.h>
#include <fmt/format.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/run_command.h"

namespace kvasir {
namespace {

constexpr const char* kHelp =
    "  /set NAME VALUE   temp, top-k, top-p, min-p, repeat-penalty, seed, predict, system\n"
    "  /show [WHAT]      settings, model, cache\n"
    "  /clear            forget the conversation\n"
    "  /bye              leave (or Ctrl-D)\n"
    "  \"\"\"               begins and ends a message of several lines\n"
    "  Ctrl-C            stops the answer\n";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

template <class Number>
Number parse_number(std::string_view name, std::string_view value) {
  Number parsed{};
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (status != std::errc{} || end != value.data() + value.size()) {
    fail_usage(fmt::format("'{}' is not a value for {}", value, name), "/set", "give a number");
  }
  return parsed;
}

// Ctrl-C stops answers; while a line is being typed it must not end the conversation.
std::optional<std::string> read_line(const char* prompt) {
  const auto before = std::signal(SIGINT, SIG_IGN);
  const std::unique_ptr<char, decltype(&std::free)> line(::readline(prompt), &std::free);
  std::signal(SIGINT, before);
  if (line == nullptr) return std::nullopt;
  if (*line != '\0') ::add_history(line.get());
  return std::string(line.get());
}

// One message, or nothing at the end of input. """ opens and closes a message of several lines.
std::optional<std::string> read_message() {
  std::optional<std::string> line = read_line(">>> ");
  if (!line || !line->starts_with("\"\"\"")) return line;
  std::string message = line->substr(3);
  while (!message.ends_with("\"\"\"")) {
    const std::optional<std::string> more = read_line("... ");
    if (!more) return std::nullopt;
    message += "\n" + *more;
  }
  message.resize(message.size() - 3);
  return message;
}

class Conversation {
 public:
  Conversation(Llm& llm, ChatSettings settings) : llm_(llm), settings_(std::move(settings)) {}

  enum class After : std::uint8_t { kGoOn, kLeave };

  After command(std::string_view line) {
    const size_t space = line.find(' ');
    const std::string_view verb = line.substr(0, space);
    const std::string_view rest = space == std::string_view::npos ? "" : trimmed(line.substr(space));
    if (verb == "/bye" || verb == "/exit") return After::kLeave;
    if (verb == "/clear") {
      messages_.clear();
      fmt::print("The conversation is forgotten; what it cached is not.\n");
    } else if (verb == "/set") {
      fmt::print("{}\n", apply_setting(rest, settings_));
    } else if (verb == "/show") {
      fmt::print("{}", show(rest, llm_, settings_));
    } else {
      fmt::print("{}", kHelp);
    }
    return After::kGoOn;
  }

  void say(std::string text) {
    messages_.push_back({"user", std::move(text)});
    try {
      answer();
    } catch (const Error&) {
      messages_.pop_back();  // as if it had not been said
      throw;
    }
  }

 private:
  void answer() {
    const InterruptScope interrupt;
    const Llm::OnText print = [&interrupt](std::string_view piece) {
      fmt::print("{}", piece);
      std::fflush(stdout);
      return interrupt.interrupted() ? Llm::Next::kStop : Llm::Next::kContinue;
    };
    while (true) {
      try {
        const Answer answer = llm_.chat(with_system(), settings_.generate, print);
        fmt::print("\n\n");
        std::fflush(stdout);
        fmt::print(stderr, "{}\n{}\n\n", timing_line(answer), answer.reuse);
        messages_.push_back({"assistant", answer.text});
        ++settings_.generate.seed;
        return;
      } catch (const Error& error) {
        // Too long by now: the oldest exchange goes, the newest message stays.
        if (error.kind() != Error::Kind::kCapacity || messages_.size() < 3) throw;
        messages_.erase(messages_.begin(), messages_.begin() + 2);
        fmt::print(stderr, "(the conversation is longer than the context: its oldest exchange was dropped)\n");
      }
    }
  }

  std::vector<Message> with_system() const {
    std::vector<Message> out;
    if (!settings_.system.empty()) out.push_back({"system", settings_.system});
    out.insert(out.end(), messages_.begin(), messages_.end());
    return out;
  }

  Llm& llm_;
  ChatSettings settings_;
  std::vector<Message> messages_;
};

}  // namespace

std::string apply_setting(std::string_view arguments, ChatSettings& settings) {
  const size_t space = arguments.find(' ');
  const std::string_view name = arguments.substr(0, space);
  const std::string_view value = space == std::string_view::npos ? "" : trimmed(arguments.substr(space));
  GenerateOptions& g = settings.generate;
  if (name == "temp" || name == "temperature")
    g.temperature = parse_number<float>(name, value);
  else if (name == "top-k" || name == "top_k")
    g.top_k = parse_number<int>(name, value);
  else if (name == "top-p" || name == "top_p")
    g.top_p = parse_number<float>(name, value);
  else if (name == "min-p" || name == "min_p")
    g.min_p = parse_number<float>(name, value);
  else if (name == "repeat-penalty" || name == "repeat_penalty")
    g.repetition_penalty = parse_number<float>(name, value);
  else if (name == "seed")
    g.seed = parse_number<std::uint64_t>(name, value);
  else if (name == "predict" || name == "num_predict")
    g.max_tokens = parse_number<std::int64_t>(name, value);
  else if (name == "system")
    settings.system = value;
  else
    fail_usage(fmt::format("'{}' is not a setting", name), "/set",
               "use temp, top-k, top-p, min-p, repeat-penalty, seed, predict or system");
  return fmt::format("{} is {}", name, value.empty() ? "empty" : value);
}

std::string show(std::string_view what, const Llm& llm, const ChatSettings& settings) {
  std::string out;
  if (what.empty() || what == "settings") {
    const GenerateOptions g = llm.resolved(settings.generate);
    out += fmt::format("settings  temp {}, top-k {}, top-p {}, min-p {}, repeat-penalty {}, seed {}, predict {}\n",
                       *g.temperature, *g.top_k, *g.top_p, *g.min_p, *g.repetition_penalty, g.seed, g.max_tokens);
  }
  if (what.empty() || what == "model" || what == "info") {
    const ModelInfo info = llm.model();
    out += fmt::format(
        "model     {}\n          {} parameters, {} of weights, context {}, {} of KV a token\n          {}\n",
        info.description, format_count(info.parameters), format_bytes(info.weight_bytes), info.context,
        format_bytes(static_cast<std::uint64_t>(info.kv_bytes_per_token)), info.backend);
  }
  if (what.empty() || what == "cache") {
    const CacheInfo cache = llm.cache();
    out += fmt::format(
        "cache     {} blocks of {} tokens, {} each: {} free, {} kept for reuse\n          {} of {} prompt tokens "
        "reused, {} blocks evicted\n",
        cache.blocks, cache.block_tokens, format_bytes(static_cast<std::uint64_t>(cache.block_bytes)),
        cache.free_blocks, cache.cached_blocks, cache.hit_tokens, cache.queried_tokens, cache.evicted_blocks);
  }
  if (out.empty())
    fail_usage(fmt::format("there is nothing to show of '{}'", what), "/show", "use settings, model or cache");
  return out;
}

void chat_on_terminal(Llm& llm, ChatSettings settings) {
  if (!llm.can_chat()) {
    fail_usage("the model has no chat template", "run", "give it a text to continue with -p");
  }
  const ModelInfo info = llm.model();
  fmt::print(stderr, "{} on {}. /help lists the commands, Ctrl-D leaves.\n\n", info.description, info.backend);
  Conversation conversation(llm, std::move(settings));
  while (const std::optional<std::string> line = read_message()) {
    const std::string_view text = trimmed(*line);
    if (text.empty()) continue;
    try {
      if (text.front() != '/') {
        conversation.say(std::string(text));
      } else if (conversation.command(text) == Conversation::After::kLeave) {
        return;
      }
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.what());
    }
  }
  fmt::print("\n");
}

}  // namespace kvasir
