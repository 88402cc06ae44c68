#include "cli/help/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "cli/help/option_values.h"

namespace kvasir {
namespace {

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> out;
  std::istringstream stream{std::string(text)};
  for (std::string word; std::getline(stream, word, separator);) {
    if (!word.empty()) out.push_back(word);
  }
  return out;
}

// A line for this command alone stands before that for any.
const OptionValue* table_line(const CLI::App& command, const std::string& option) {
  const OptionValue* found = nullptr;
  for (const OptionValue& line : option_values()) {
    if (line.option != option) continue;
    if (line.command == command.get_name()) return &line;
    if (line.command.empty()) found = &line;
  }
  return found;
}

// CLI11 says "INT:NONNEGATIVE", "TEXT:{text,json}".
std::string bare_type(const std::string& type) {
  const std::string name = type.substr(0, type.find(':'));
  if (name == "INT" || name == "UINT") return "N";
  if (name == "FLOAT") return "NUMBER";
  return name;
}

std::vector<std::string> members_in(const std::string& type) {
  const size_t open = type.find('{');
  if (open == std::string::npos) return {};
  return split_at(std::string_view(type).substr(open + 1, type.find('}') - open - 1), ',');
}

std::string variable_of(const std::string& option) {
  for (const OptionVariable& line : option_variables()) {
    if (line.option == option) return std::string(line.variable);
  }
  return {};
}

std::vector<std::string> names_of(const CLI::Option& option) {
  if (option.get_positional()) return {option.get_name(true)};
  std::vector<std::string> out;
  for (const std::string& name : option.get_snames()) out.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.push_back("--" + name);
  return out;
}

OptionInfo describe_option(const CLI::App& command, const CLI::Option& option) {
  OptionInfo out;
  out.names = names_of(option);
  out.positional = option.get_positional();
  out.help = option.get_description();
  out.fallback = option.get_default_str();
  out.group = option.get_group();
  out.required = option.get_required();
  out.repeated = option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() == 0) return out;
  const std::string type = option.get_type_name();
  out.value = bare_type(type);
  out.choices = members_in(type);
  for (const std::string& name : out.names) {
    if (const OptionValue* line = table_line(command, name)) {
      out.value = line->value;
      out.kind = line->kind;
      out.choices = split_at(line->choices, ' ');
    }
    if (out.environment.empty()) out.environment = variable_of(name);
  }
  return out;
}

std::string path_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : path_of(*app.get_parent()) + " " + app.get_name();
}

void describe_environment(CommandInfo& command) {
  for (const OptionInfo& option : command.options) {
    if (option.environment.empty()) continue;
    command.environment.push_back({option.environment, "for " + option.longest_name()});
  }
  for (const OtherVariable& line : other_variables()) {
    const std::string path = "kvasir " + std::string(line.command);
    if (command.path == path || command.path.starts_with(path + " "))
      command.environment.push_back({std::string(line.variable), std::string(line.says)});
  }
}

}  // namespace

std::string_view CommandInfo::name() const {
  const size_t space = path.rfind(' ');
  return std::string_view(path).substr(space == std::string::npos ? 0 : space + 1);
}

CommandInfo describe(const CLI::App& app) {
  CommandInfo out;
  out.path = path_of(app);
  out.group = app.get_group();
  out.about = app.get_description();
  const std::string inherited = app.get_parent() == nullptr ? "" : app.get_parent()->get_footer();
  if (app.get_footer() != inherited) out.notes = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) out.options.push_back(describe_option(app, *option));
  }
  for (const CLI::App* command : app.get_subcommands({})) out.commands.push_back(describe(*command));
  for (const ExampleLine& line : example_lines()) {
    if (line.path == out.path) out.examples.push_back({std::string(line.command), std::string(line.says)});
  }
  describe_environment(out);
  return out;
}

// CLI11 reads the variables of every command's options, called or not, and refuses what they hold: so a command's
// options learn of theirs when it is called.
void read_environment(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    read_environment(*command);
    command->preparse_callback([command](std::size_t) {
      for (CLI::Option* option : command->get_options()) {
        for (const std::string& name : names_of(*option)) {
          if (const std::string variable = variable_of(name); !variable.empty()) option->envname(variable);
        }
      }
    });
  }
}

}  // namespace kvasir
