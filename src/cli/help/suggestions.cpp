#include "cli/help/suggestions.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/help/option_values.h"

namespace kvasir {
namespace {

// How far a name may be from what was typed to be worth a word.
size_t most_edits(std::string_view typed) { return std::max<size_t>(typed.size() / 3, 1); }

std::vector<std::string> option_names(const CommandInfo& command) {
  std::vector<std::string> out;
  for (const OptionInfo& option : command.options) {
    if (!option.positional) out.insert(out.end(), option.names.begin(), option.names.end());
  }
  return out;
}

bool has_option(const CommandInfo& command, std::string_view name) {
  return std::ranges::count(option_names(command), name) > 0;
}

std::optional<std::string> nearest(std::string_view typed, const std::vector<std::string>& names, size_t most) {
  std::optional<std::string> best;
  size_t least = most + 1;
  for (const std::string& name : names) {
    const bool begins = typed.size() > 3 && name.starts_with(typed);  // --ctx for --ctx-size
    const size_t distance = begins ? 1 : edit_distance(typed, name);
    if (distance >= least) continue;
    least = distance;
    best = name;
  }
  return best;
}

std::optional<std::string> foreign_name(std::string_view typed, const CommandInfo& command) {
  for (const ForeignOption& line : foreign_options()) {
    if (line.foreign == typed && has_option(command, line.ours)) return std::string(line.ours);
  }
  return std::nullopt;
}

// Other commands that know the option.
std::vector<std::string> owners_of(std::string_view option, const CommandInfo& command) {
  std::vector<std::string> out;
  if (has_option(command, option)) out.push_back(command.path);
  for (const CommandInfo& one : command.commands) {
    const std::vector<std::string> below = owners_of(option, one);
    out.insert(out.end(), below.begin(), below.end());
  }
  return out;
}

std::string explain_option(const CommandInfo& program, const CommandInfo& command, const std::string& typed) {
  std::string out = fmt::format("{} has no option {}", command.path, typed);
  if (const auto ours = foreign_name(typed, command)) return out + fmt::format("; here it is called {}", *ours);
  const std::vector<std::string> names = option_names(command);
  if (const auto near = nearest(typed, names, 1)) return out + fmt::format("; did you mean {}?", *near);
  const std::vector<std::string> owners = owners_of(typed, program);
  if (!owners.empty()) return out + fmt::format("; {} has{}", owners[0], owners.size() > 1 ? ", and others" : "");
  if (const auto near = nearest(typed, names, most_edits(typed)))
    return out + fmt::format("; did you mean {}?", *near);
  return out;
}

std::string explain_verb(const CommandInfo& command, const std::string& typed) {
  std::vector<std::string> verbs;
  for (const CommandInfo& one : command.commands) verbs.emplace_back(one.name());
  std::string out = fmt::format("{} has no command '{}'", command.path, typed);
  if (const auto near = nearest(typed, verbs, most_edits(typed)))
    return out + fmt::format("; did you mean {}?", *near);
  return out;
}

const CommandInfo* command_named(const CommandInfo& in, std::string_view name) {
  const auto found = std::ranges::find_if(in.commands, [name](const CommandInfo& one) { return one.name() == name; });
  return found == in.commands.end() ? nullptr : &*found;
}

const OptionInfo* option_named(const CommandInfo& in, std::string_view name) {
  for (const OptionInfo& option : in.options) {
    if (!option.positional && std::ranges::count(option.names, name) > 0) return &option;
  }
  return nullptr;
}

// Walks the line as the parser does: commands go down, an option with a value takes the next word.
struct Walk {
  const CommandInfo* command;
  std::string unknown;  // the first word that is neither; empty: all are known
};

Walk walk(const CommandInfo& program, const std::vector<std::string>& line) {
  Walk out{&program, {}};
  for (size_t i = 0; i < line.size() && out.unknown.empty(); ++i) {
    const std::string& word = line[i];
    if (word == "--") break;
    if (word.size() > 1 && word[0] == '-' &&
        std::string_view("0123456789.").find(word[1]) == std::string_view::npos) {
      const std::string name = word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
      const OptionInfo* option = option_named(*out.command, name);
      if (option == nullptr) {
        out.unknown = word.starts_with("--") ? name : word;
      } else if (!option->value.empty() && name == word) {
        ++i;
      }
    } else if (const CommandInfo* next = command_named(*out.command, word)) {
      out.command = next;
    } else if (!out.command->commands.empty()) {
      out.unknown = word;
    }
  }
  return out;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const size_t changed = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, changed});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string called_command(const CommandInfo& program, const std::vector<std::string>& line) {
  return walk(program, line).command->path;
}

std::string explain_unknown(const CommandInfo& program, const std::vector<std::string>& line) {
  const Walk found = walk(program, line);
  if (found.unknown.empty()) return {};
  if (found.unknown[0] == '-') return explain_option(program, *found.command, found.unknown);
  return explain_verb(*found.command, found.unknown);
}

}  // namespace kvasir
