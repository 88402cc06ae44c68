#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "base/error.h"
#include "cli/bench_command.h"
#include "cli/plan_command.h"
#include "cli/run_command.h"
#include "cli/serve_command.h"
#include "cli/synth_command.h"

namespace {

int exit_code(kvasir::Error::Kind kind) { return kind == kvasir::Error::Kind::kUsage ? 2 : 1; }

int complain(const std::string& what, int code) {
  std::fflush(stdout);
  fmt::print(stderr, "kvasir: {}\n", what);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Kvasir: an LLM inference engine whose heart is the KV cache.", "kvasir"};
  app.set_version_flag("--version", "kvasir " KVASIR_VERSION);
  app.require_subcommand(1);
  app.fallthrough(false);
  kvasir::add_serve_command(app);
  kvasir::add_run_command(app);
  kvasir::add_bench_command(app);
  kvasir::add_plan_command(app);
  kvasir::add_synth_command(app);
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
