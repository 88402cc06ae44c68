// What the program's commands and options are, as plain data: help, the man page, completions and suggestions are all
// made from it, and so none can forget an option.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace kvasir {

// What a shell may offer for an option's value, besides `choices`.
enum class ValueKind : std::uint8_t { kText, kFile, kFolder };

struct OptionInfo {
  std::vector<std::string> names;  // "-m", "--model"; of a positional its one name
  std::string value;               // what stands for its value in help; empty: a flag
  ValueKind kind = ValueKind::kText;
  std::vector<std::string> choices;
  std::string help;
  std::string fallback;     // its value where it is not given; empty: the help says
  std::string group;        // the heading that it stands under
  std::string environment;  // the variable that is read where it is not given; empty: none
  bool positional = false;
  bool required = false;
  bool repeated = false;

  const std::string& longest_name() const { return names.back(); }
};

struct CommandExample {
  std::string command;  // as it is typed
  std::string says;
};

struct EnvironmentInfo {
  std::string name;
  std::string says;
};

struct CommandInfo {
  std::string path;  // "kvasir keys add"
  std::string group;
  std::string about;
  std::string notes;
  std::vector<OptionInfo> options;
  std::vector<CommandInfo> commands;
  std::vector<CommandExample> examples;
  std::vector<EnvironmentInfo> environment;  // of its options, and what else it reads

  std::string_view name() const;  // "add"
};

// `app` is a command, or the program with all of its commands.
CommandInfo describe(const CLI::App& app);

// Variables of the environment that stand for options of the command that was called; before it is parsed.
void read_environment(CLI::App& app);

}  // namespace kvasir
