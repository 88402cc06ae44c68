// The program's commands, in the order and under the headings of its help.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace kvasir {

struct ProgramFacts {
  std::string version;              // "kvasir 1.2.3"
  std::filesystem::path keys_file;  // where keys are when nobody says
};

// Makes `app` the program: its commands, their help, and what they read of the environment.
void add_commands(CLI::App& app, const ProgramFacts& facts);

// What to say of a line that was not understood: what was wrong, what may have been meant, where to read on.
std::string explain_mistake(const CLI::App& app, const std::string& problem, const std::vector<std::string>& line);

}  // namespace kvasir
