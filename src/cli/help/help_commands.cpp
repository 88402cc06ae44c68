#include "cli/help/help_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "cli/help/completions.h"
#include "cli/help/man_page.h"

namespace kvasir {

void add_completions_command(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completions", "Print what a shell needs to complete kvasir's options");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app] {
    const CommandInfo program = describe(app);
    if (*shell == "bash") fmt::print("{}", bash_completions(program));
    if (*shell == "zsh") fmt::print("{}", zsh_completions(program));
    if (*shell == "fish") fmt::print("{}", fish_completions(program));
  });
}

void add_man_command(CLI::App& app, const std::string& version) {
  CLI::App* command = app.add_subcommand("man", "Print the manual page");
  command->callback([version, &app] { fmt::print("{}", man_page(describe(app), version)); });
}

}  // namespace kvasir
