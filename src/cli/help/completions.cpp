#include "cli/help/completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace kvasir {
namespace {

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : std::string(between)) + word;
  return out;
}

void each_command(const CommandInfo& command, const std::function<void(const CommandInfo&)>& visit) {
  visit(command);
  for (const CommandInfo& one : command.commands) each_command(one, visit);
}

std::vector<std::string> flags_of(const CommandInfo& command) {
  std::vector<std::string> out;
  for (const OptionInfo& option : command.options) {
    if (!option.positional) out.insert(out.end(), option.names.begin(), option.names.end());
  }
  return out;
}

std::vector<std::string> verbs_of(const CommandInfo& command) {
  std::vector<std::string> out;
  for (const CommandInfo& one : command.commands) out.emplace_back(one.name());
  return out;
}

// For single quotes of a shell.
std::string shell_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out;
}

std::string fish_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

// The first part of what is said of an option: a line of a menu has no room for more.
std::string brief_help(const OptionInfo& option) {
  const size_t end = std::min(option.help.find_first_of(";:("), option.help.find(". "));
  std::string out = option.help.substr(0, end);
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out.empty() ? option.help : out;
}

std::string bash_case(const CommandInfo& command, const OptionInfo& option) {
  std::vector<std::string> patterns;
  for (const std::string& name : option.names) patterns.push_back(fmt::format("'{} {}'", command.path, name));
  std::string does = fmt::format("words='{}'", joined(option.choices, " "));
  if (option.kind == ValueKind::kFile) does += " files=-f";
  if (option.kind == ValueKind::kFolder) does += " files=-d";
  return fmt::format("    {}) {} ;;\n", joined(patterns, "|"), does);
}

// zsh's words for what a value may be.
std::string zsh_value(const OptionInfo& option) {
  std::vector<std::string> choices;
  for (const std::string& choice : option.choices) {
    std::string quoted;
    for (const char c : choice) quoted += c == ':' ? std::string("\\:") : std::string(1, c);
    choices.push_back(quoted);
  }
  const std::string words = joined(choices, " ");
  const char* files = option.kind == ValueKind::kFolder ? "_files -/" : "_files";
  if (option.kind == ValueKind::kText) return words.empty() ? " " : fmt::format("({})", words);
  return words.empty() ? files : fmt::format(" _kvasir_or_files {}", words);
}

std::string zsh_argument(const OptionInfo& option) {
  std::string says;
  for (const char c : brief_help(option)) says += c == '[' || c == ']' ? std::string("\\") + c : std::string(1, c);
  const std::string value =
      option.value.empty() ? "" : shell_quoted(fmt::format(":{}:{}", option.value, zsh_value(option)));
  if (option.positional) return fmt::format("'{}{}'", option.repeated ? "*" : "1", value);
  const std::string tail = fmt::format("'[{}]{}'", shell_quoted(says), value);
  const std::string all = joined(option.names, " ");
  const std::string before = option.repeated ? "'*'" : fmt::format("'({})'", all);
  if (option.names.size() == 1) return before + option.names[0] + tail;
  return before + "{" + joined(option.names, ",") + "}" + tail;
}

std::string zsh_function(const CommandInfo& command) {
  std::string name = "_" + command.path;
  std::ranges::replace(name, ' ', '_');
  std::string out = name + "() {\n";
  if (!command.commands.empty()) out += "  local curcontext=$curcontext state line\n";
  out += "  _arguments -s";
  if (!command.commands.empty()) out += " -C";
  for (const OptionInfo& option : command.options) out += " \\\n    " + zsh_argument(option);
  if (command.commands.empty()) return out + "\n}\n";
  out +=
      " \\\n    '1: :->command' \\\n    '*:: :->rest'\n  case $state in\n    command)\n      local -a commands=(\n";
  for (const CommandInfo& one : command.commands)
    out += fmt::format("        '{}:{}'\n", one.name(), shell_quoted(one.about));
  out += "      )\n      _describe command commands ;;\n    rest)\n      case $words[1] in\n";
  for (const CommandInfo& one : command.commands)
    out += fmt::format("        {}) {}_{} ;;\n", one.name(), name, one.name());
  return out + "      esac ;;\n  esac\n}\n";
}

// Where a line of fish's holds: behind these commands, and no other of theirs.
std::string fish_condition(const CommandInfo& command) {
  std::string out;
  const std::string path = command.path;
  for (size_t at = path.find(' '); at != std::string::npos; at = path.find(' ', at + 1)) {
    const std::string verb = path.substr(at + 1, path.find(' ', at + 1) - at - 1);
    out += fmt::format("{}__fish_seen_subcommand_from {}", out.empty() ? "" : "; and ", verb);
  }
  if (command.commands.empty()) return out;
  out += out.empty() ? "not " : "; and not ";
  return out + "__fish_seen_subcommand_from " + joined(verbs_of(command), " ");
}

std::string fish_option(const OptionInfo& option, const std::string& start) {
  std::string out = start;
  for (const std::string& name : option.names) {
    if (option.positional) continue;
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.value.empty() && !option.positional) out += option.kind == ValueKind::kText ? " -x" : " -r -F";
  if (!option.choices.empty()) out += fmt::format(" -a '{}'", joined(option.choices, " "));
  return out + fmt::format(" -d '{}'\n", fish_quoted(brief_help(option)));
}

}  // namespace

std::string bash_completions(const CommandInfo& program) {
  std::string commands;
  std::string options;
  std::string values;
  each_command(program, [&](const CommandInfo& command) {
    for (const CommandInfo& one : command.commands)
      commands += fmt::format("      '{}') command='{}' ;;\n", one.path, one.path);
    options += fmt::format("    '{}') words='{} {}' ;;\n", command.path, joined(verbs_of(command), " "),
                           joined(flags_of(command), " "));
    for (const OptionInfo& option : command.options) {
      if (!option.value.empty() && !option.positional) values += bash_case(command, option);
    }
  });
  std::string positionals;
  each_command(program, [&](const CommandInfo& command) {
    for (const OptionInfo& option : command.options) {
      if (option.positional && !option.choices.empty())
        positionals += fmt::format("    '{}') words+=' {}' ;;\n", command.path, joined(option.choices, " "));
    }
  });
  return fmt::format(R"(# bash completion of kvasir; made by kvasir completions bash
_kvasir() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command=kvasir words='' files='' i
  if [[ $current == = ]]; then
    current=''
  elif [[ $before == = ]]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${{COMP_WORDS[i]}}" in
{}    esac
  done
  case "$command $before" in
{}    *)
      case "$command" in
{}      esac
      case "$command" in
{}      *) ;;
      esac ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current"; [[ -z $files ]] || compgen $files -- "$current")
  [[ -z $files ]] || compopt -o filenames 2>/dev/null
}}
complete -F _kvasir kvasir
)",
                     commands, values, options, positionals);
}

std::string zsh_completions(const CommandInfo& program) {
  std::string out =
      "#compdef kvasir\n# made by kvasir completions zsh\n_kvasir_or_files() { compadd -- \"$@\"; _files }\n";
  each_command(program, [&out](const CommandInfo& command) { out += zsh_function(command); });
  return out + "_kvasir \"$@\"\n";
}

std::string fish_completions(const CommandInfo& program) {
  std::string out = "# fish completion of kvasir; made by kvasir completions fish\ncomplete -c kvasir -f\n";
  each_command(program, [&out](const CommandInfo& command) {
    const std::string start = fmt::format("complete -c kvasir -n '{}'", fish_condition(command));
    for (const CommandInfo& one : command.commands)
      out += fmt::format("{} -a {} -d '{}'\n", start, one.name(), fish_quoted(one.about));
    for (const OptionInfo& option : command.options) out += fish_option(option, start);
  });
  return out;
}

}  // namespace kvasir
