// kvasir doctor: is this machine ready, and does isolation hold?
#pragma once

#include <filesystem>

namespace CLI {
class App;
}

namespace kvasir {

// `standard_keys` is where the keys file is when nobody says otherwise.
void add_doctor_command(CLI::App& app, const std::filesystem::path& standard_keys);

}  // namespace kvasir
