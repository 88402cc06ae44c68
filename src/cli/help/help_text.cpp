#include "cli/help/help_text.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

namespace kvasir {
namespace {

constexpr size_t kColumn = 30;  // where what is said about an option begins

// Words within the width, each line behind so many spaces; the first one continues a line that is as long already.
std::string filled(std::string_view text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const bool first = column == indent;
    if (!first && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + "\n";
}

std::string row(const std::string& left, std::string_view right, size_t width) {
  std::string out = left;
  if (out.size() + 2 > kColumn) {
    out += "\n" + std::string(kColumn, ' ');
  } else {
    out.resize(kColumn, ' ');
  }
  return out + filled(right, kColumn, width);
}

std::string names_text(const OptionInfo& option) {
  if (option.positional) return "  " + option.names.front() + (option.repeated ? " …" : "");
  std::string out;
  for (const std::string& name : option.names) {
    if (out.empty()) {
      out = name.starts_with("--") ? "      " + name : "  " + name;
    } else {
      out += ", " + name;
    }
  }
  if (!option.value.empty()) out += " " + option.value;
  return out;
}

// What an option is when it is not given stands behind what it does.
std::string about_option(const OptionInfo& option) {
  std::string out = option.help;
  if (option.required && !option.positional) out += " (required)";
  if (!option.fallback.empty()) out += fmt::format(" [{}]", option.fallback);
  return out;
}

// In the order of the options, but for help itself, which comes last.
std::vector<std::string> groups_of(const CommandInfo& command) {
  std::vector<std::string> out;
  for (const OptionInfo& option : command.options) {
    if (option.positional) continue;
    if (std::ranges::find(out, option.group) == out.end()) out.push_back(option.group);
  }
  std::stable_partition(out.begin(), out.end(), [](const std::string& group) { return group != "Help"; });
  return out;
}

std::string usage(const CommandInfo& command) {
  std::string out = "Usage: " + command.path + " [OPTIONS]";
  for (const OptionInfo& option : command.options) {
    if (option.positional) out += " " + option.names.front() + (option.repeated ? "…" : "");
  }
  for (const OptionInfo& option : command.options) {
    if (option.required && !option.positional) out += fmt::format(" {} {}", option.longest_name(), option.value);
  }
  return out + (command.commands.empty() ? "\n" : " COMMAND\n");
}

std::string commands_text(const CommandInfo& command, size_t width) {
  std::string out;
  std::string group;
  for (const CommandInfo& one : command.commands) {
    if (one.group != group) out += fmt::format("\n{}:\n", group = one.group);
    out += row("  " + std::string(one.name()), one.about, width);
  }
  return out;
}

std::string options_text(const CommandInfo& command, size_t width) {
  std::string out;
  for (const OptionInfo& option : command.options) {
    if (!option.positional) continue;
    if (out.empty()) out += "\nArguments:\n";
    out += row(names_text(option), about_option(option), width);
  }
  for (const std::string& group : groups_of(command)) {
    out += fmt::format("\n{}:\n", group);
    for (const OptionInfo& option : command.options) {
      if (!option.positional && option.group == group) out += row(names_text(option), about_option(option), width);
    }
  }
  return out;
}

}  // namespace

std::string help_text(const CommandInfo& command, int columns) {
  const auto width = static_cast<size_t>(columns);
  std::string out = filled(command.about, 0, width) + "\n" + usage(command);
  out += commands_text(command, width) + options_text(command, width);
  if (!command.environment.empty()) out += "\nEnvironment:\n";
  for (const EnvironmentInfo& one : command.environment) out += row("  " + one.name, one.says, width);
  if (!command.examples.empty()) out += "\nExamples:\n";
  for (const CommandExample& example : command.examples)
    out += fmt::format("  {}\n      {}\n", example.command, example.says);
  if (!command.notes.empty()) out += "\n" + filled(command.notes, 0, width);
  if (!command.commands.empty()) out += fmt::format("\nMore: {} COMMAND --help\n", command.path);
  return out;
}

int help_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 1 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 100;
  return std::clamp<int>(size.ws_col, 60, 110);
}

}  // namespace kvasir
