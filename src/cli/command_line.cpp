#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <memory>

#include "cli/bench/bench_command.h"
#include "cli/convert_command.h"
#include "cli/doctor/doctor_command.h"
#include "cli/embed_command.h"
#include "cli/eval_command.h"
#include "cli/help/help_commands.h"
#include "cli/help/help_text.h"
#include "cli/help/suggestions.h"
#include "cli/keys_command.h"
#include "cli/plan_command.h"
#include "cli/rerank_command.h"
#include "cli/run_command.h"
#include "cli/serve_command.h"
#include "cli/synth_command.h"
#include "cli/top/top_command.h"
#include "cli/tune_command.h"

namespace kvasir {
namespace {

void put_under(CLI::App& app, const std::string& heading, std::initializer_list<const char*> commands) {
  for (const char* command : commands) app.get_subcommand(command)->group(heading);
}

// Of the program and of every command: help in our form, and -h at its end.
void set_help(CLI::App& app) {
  app.formatter_fn(
      [](const CLI::App* of, std::string, CLI::AppFormatMode) { return help_text(describe(*of), help_width()); });
  app.get_help_ptr()->description("Show this help")->group("Help");
  for (CLI::App* command : app.get_subcommands({})) set_help(*command);
}

}  // namespace

void add_commands(CLI::App& app, const ProgramFacts& facts) {
  app.name("kvasir");
  app.description("Kvasir: an LLM inference engine whose heart is the KV cache");
  app.set_version_flag("--version", facts.version, "Show the version")->group("Help");
  app.footer(
      "Answers go to stdout, everything else to stderr. Exit code 1: wrong input; 2: wrong command line.");
  app.require_subcommand(1);
  app.fallthrough(false);
  add_serve_command(app);
  add_top_command(app);
  add_keys_command(app, facts.keys_file);
  put_under(app, "Serve", {"serve", "top", "keys"});
  add_run_command(app);
  add_embed_command(app);
  add_rerank_command(app);
  put_under(app, "Answer", {"run", "embed", "rerank"});
  add_plan_command(app);
  add_convert_command(app);
  add_synth_command(app);
  put_under(app, "Prepare", {"plan", "convert", "synth"});
  add_bench_command(app);
  add_eval_command(app);
  add_tune_command(app);
  add_doctor_command(app, facts.keys_file);
  put_under(app, "Measure", {"bench", "eval", "tune", "doctor"});
  add_completions_command(app);
  add_man_command(app, facts.version);
  put_under(app, "Look up", {"completions", "man"});
  set_help(app);
  read_environment(app);
}

std::string explain_mistake(const CLI::App& app, const std::string& problem, const std::vector<std::string>& line) {
  const CommandInfo program = describe(app);
  const std::string unknown = explain_unknown(program, line);
  return fmt::format("{}; see {} --help", unknown.empty() ? problem : unknown, called_command(program, line));
}

}  // namespace kvasir
