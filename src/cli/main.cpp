#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>

#include "base/error.h"
#include "cli/bench/bench_command.h"
#include "cli/convert_command.h"
#include "cli/doctor/doctor_command.h"
#include "cli/embed_command.h"
#include "cli/eval_command.h"
#include "cli/keys_command.h"
#include "cli/plan_command.h"
#include "cli/rerank_command.h"
#include "cli/run_command.h"
#include "cli/serve_command.h"
#include "cli/synth_command.h"
#include "cli/tune_command.h"

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
  CLI::App app{"Kvasir: an LLM inference engine whose heart is the KV cache.", "kvasir"};
  app.set_version_flag("--version", "kvasir " KVASIR_VERSION);
  app.require_subcommand(1);
  app.fallthrough(false);
  kvasir::add_serve_command(app);
  kvasir::add_keys_command(app, default_keys_file());
  kvasir::add_run_command(app);
  kvasir::add_embed_command(app);
  kvasir::add_rerank_command(app);
  kvasir::add_bench_command(app);
  kvasir::add_eval_command(app);
  kvasir::add_tune_command(app);
  kvasir::add_plan_command(app);
  kvasir::add_convert_command(app);
  kvasir::add_synth_command(app);
  kvasir::add_doctor_command(app, default_keys_file());
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& shown) {  // --help, --version
    return app.exit(shown);
  } catch (const CLI::ParseError& error) {
    return complain(fmt::format("{}; see kvasir --help", error.what()), 2);
  } catch (const kvasir::Error& error) {
    return complain(error.what(), exit_code(error.kind()));
  } catch (const std::bad_alloc&) {
    return complain("there is not enough memory; use a smaller model, --ctx-size or --kv-memory", 1);
  } catch (const std::exception& error) {
    return complain(fmt::format("unexpected: {}", error.what()), 1);
  }
}
