#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>

#include "base/error.h"
#include "cli/command_line.h"

namespace {

int exit_code(kvasir::Error::Kind kind) { return kind == kvasir::Error::Kind::kUsage ? 2 : 1; }

int complain(const std::string& what, int code) {
  std::fflush(stdout);
  fmt::print(stderr, "kvasir: {}\n", what);
  return code;
}

// Where the desktop's rules put a program's settings.
std::filesystem::path default_keys_file() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  const bool set = config != nullptr && *config == '/';  // those rules say: a relative one is to be ignored
  const std::filesystem::path folder = set ? config : std::filesystem::path(home != nullptr ? home : ".") / ".config";
  return folder / "kvasir" / "keys.json";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app;
  kvasir::add_commands(app, {"kvasir " KVASIR_VERSION, default_keys_file()});
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& shown) {  // --help, --version
    return app.exit(shown);
  } catch (const CLI::ParseError& error) {
    return complain(kvasir::explain_mistake(app, error.what(), {argv + 1, argv + argc}), 2);
  } catch (const kvasir::Error& error) {
    return complain(error.what(), exit_code(error.kind()));
  } catch (const std::bad_alloc&) {
    return complain("there is not enough memory; use a smaller model, --ctx-size or --kv-memory", 1);
  } catch (const std::exception& error) {
    return complain(fmt::format("unexpected: {}", error.what()), 1);
  }
}
