// kvasir completions, kvasir man: what the program says of itself to shells and readers.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace kvasir {

// Both tell of all commands that `app` has when they are called.
void add_completions_command(CLI::App& app);
void add_man_command(CLI::App& app, const std::string& version);

}  // namespace kvasir
