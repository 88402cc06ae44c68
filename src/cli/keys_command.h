// kvasir keys: who may use the server.
#pragma once

#include <filesystem>

namespace CLI {
class App;
}

namespace kvasir {

// `standard_file` is where keys are when nobody says otherwise.
void add_keys_command(CLI::App& app, const std::filesystem::path& standard_file);

// "20%" as 0.2. Throws Error naming `option`.
double parse_percent(const std::string& text, const std::string& option);

}  // namespace kvasir
