#include "cli/help/man_page.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvasir {
namespace {

// A hyphen of an option is a minus; a line that begins with a dot or an apostrophe would be a macro.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  if (out.starts_with('.') || out.starts_with('\'')) out.insert(0, "\\&");
  return out;
}

std::string entry(const std::string& term, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", term, roff(text));
}

std::string option_term(const OptionInfo& option) {
  std::string out;
  for (const std::string& name : option.names)
    out += fmt::format("{}\\fB{}\\fR", out.empty() ? "" : ", ", roff(name));
  if (!option.value.empty() && !option.positional) out += fmt::format(" \\fI{}\\fR", roff(option.value));
  return out;
}

std::string option_entry(const OptionInfo& option) {
  std::string says = option.help;
  if (!option.fallback.empty()) says += fmt::format(" [{}]", option.fallback);
  if (!option.environment.empty()) says += fmt::format(" (${})", option.environment);
  return entry(option_term(option), says);
}

std::string section_of(const CommandInfo& command) {
  std::string out = fmt::format(".SS {}\n{}.\n", roff(command.path), roff(command.about));
  std::string group;
  for (const OptionInfo& option : command.options) {
    if (option.names.back() == "--help") continue;
    if (option.group != group && !option.positional) out += fmt::format(".PP\n.I {}\n", roff(group = option.group));
    out += option_entry(option);
  }
  if (!command.notes.empty()) out += fmt::format(".PP\n{}\n", roff(command.notes));
  for (const CommandExample& example : command.examples)
    out += fmt::format(".PP\n{}:\n.PP\n.RS 4\n.EX\n{}\n.EE\n.RE\n", roff(example.says), roff(example.command));
  for (const CommandInfo& one : command.commands) out += section_of(one);
  return out;
}

void gather_environment(const CommandInfo& command, std::vector<EnvironmentInfo>& all) {
  for (const EnvironmentInfo& one : command.environment) {
    if (std::ranges::count(all, one.name, &EnvironmentInfo::name) == 0) all.push_back(one);
  }
  for (const CommandInfo& one : command.commands) gather_environment(one, all);
}

}  // namespace

std::string man_page(const CommandInfo& program, const std::string& version) {
  std::string out = fmt::format(".TH KVASIR 1 \"\" \"{}\" \"User Commands\"\n", version);
  out += fmt::format(".SH NAME\nkvasir \\- {}\n", roff(program.about.substr(program.about.find(": ") + 2)));
  out += ".SH SYNOPSIS\n.B kvasir\n.I COMMAND\n[\\fIOPTIONS\\fR]\n";
  out += ".SH DESCRIPTION\n";
  out +=
      "The cache never changes an answer: the same bits cold or warm, alone or in a batch. It explains itself: how "
      "much of a prompt was reused, and why not more.\n";
  out += ".SH COMMANDS\n";
  for (const CommandInfo& command : program.commands)
    out += entry(fmt::format("\\fB{}\\fR", roff(command.name())), command.about);
  out += ".SH OPTIONS\n";
  for (const OptionInfo& option : program.options) out += option_entry(option);
  for (const CommandInfo& command : program.commands) out += section_of(command);
  std::vector<EnvironmentInfo> environment;
  gather_environment(program, environment);
  out += ".SH ENVIRONMENT\n";
  for (const EnvironmentInfo& one : environment) out += entry(fmt::format("\\fB{}\\fR", one.name), one.says);
  out += ".SH EXIT STATUS\n" + entry("\\fB0\\fR", "All went well.") + entry("\\fB1\\fR", "An input was wrong.") +
         entry("\\fB2\\fR", "The command line was wrong.");
  out += ".SH EXAMPLES\n";
  for (const CommandExample& example : program.examples)
    out += fmt::format(".PP\n{}:\n.PP\n.RS 4\n.EX\n{}\n.EE\n.RE\n", roff(example.says), roff(example.command));
  return out;
}

}  // namespace kvasir
