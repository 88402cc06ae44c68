// Help, completions, the man page and suggestions: all made from the program's own commands, and of all of them.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <functional>

#include "cli/command_line.h"
#include "cli/help/completions.h"
#include "cli/help/help_text.h"
#include "cli/help/man_page.h"
#include "cli/help/option_values.h"
#include "cli/help/suggestions.h"
#include "program.h"

namespace kvasir::testing {
namespace {

class HelpTest : public ProgramTest {
 protected:
  HelpTest() { add_commands(app_, {"kvasir 0", "keys.json"}); }

  static void each(const CommandInfo& command, const std::function<void(const CommandInfo&)>& visit) {
    visit(command);
    for (const CommandInfo& one : command.commands) each(one, visit);
  }

  struct Parsed {};

  // Parses as main does, and throws Parsed instead of doing it.
  static void parse(const std::string& line) {
    CLI::App app;
    add_commands(app, {"kvasir 0", "keys.json"});
    const std::function<void(CLI::App&)> stop = [&stop](CLI::App& one) {
      const std::vector<CLI::App*> below = one.get_subcommands({});
      for (CLI::App* command : below) stop(*command);
      if (!below.empty()) return;
      one.parse_complete_callback([&one] {
        if (!one.remaining().empty()) throw CLI::ExtrasError(one.remaining());
        throw Parsed{};
      });
    };
    stop(app);
    std::vector<std::string> words = CLI::detail::split_up(line);
    words.erase(words.begin());
    std::ranges::reverse(words);  // as CLI11 wants them
    app.parse(std::move(words));
  }

  CommandInfo program() const { return describe(app_); }

  std::string written(const std::string& name, const std::string& text) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }

  static std::string output_of(const std::string& command) {
    std::string out;
    FILE* pipe = ::popen(command.c_str(), "r");
    std::array<char, 4096> chunk{};
    for (size_t n = 0; (n = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) out.append(chunk.data(), n);
    ::pclose(pipe);
    return out;
  }

  // What bash offers behind these words; the last one is not whole yet.
  std::string bash_offers(const std::vector<std::string>& words) const {
    std::string line;
    for (const std::string& word : words) line += "'" + word + "' ";
    const std::string script = written(
        "offers.sh", "source " + written("kvasir.bash", bash_completions(program())) + "\nCOMP_WORDS=(" + line +
                         ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_kvasir\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
    return "\n" + output_of("cd " + folder_.string() + " && bash " + script + " 2>&1");
  }

  CLI::App app_;
};

TEST_F(HelpTest, EveryCommandHasAnExampleThatParses) {
  each(program(), [](const CommandInfo& command) {
    EXPECT_FALSE(command.examples.empty()) << command.path;
    for (const CommandExample& example : command.examples) {
      EXPECT_TRUE(example.command.starts_with(command.path)) << example.command;
      const std::string typed = example.command.substr(0, example.command.find(" > "));
      EXPECT_THROW(parse(typed), Parsed) << example.command;
    }
  });
  EXPECT_THROW(parse("kvasir serve --no-such-option"), CLI::ParseError);
  EXPECT_THROW(parse("kvasir bench --prefill many"), CLI::ParseError);
}

TEST_F(HelpTest, EveryFlagIsInHelpManPageAndCompletions) {
  const std::string bash = bash_completions(program());
  const std::string zsh = zsh_completions(program());
  const std::string fish = fish_completions(program());
  const std::string man = man_page(program(), "kvasir 0");
  int flags = 0;
  each(program(), [&](const CommandInfo& command) {
    const std::string help = help_text(command, 100);
    const size_t row = bash.find("'" + command.path + "') words='");
    ASSERT_NE(row, std::string::npos) << command.path;
    std::string words = bash.substr(row, bash.find('\n', row) - row);
    std::ranges::replace(words, '\'', ' ');
    for (const OptionInfo& option : command.options) {
      for (const std::string& name : option.names) {
        if (option.positional) continue;
        ++flags;
        EXPECT_NE(help.find(name), std::string::npos) << command.path << " " << name;
        EXPECT_NE(words.find(" " + name + " "), std::string::npos) << command.path << " " << name;
        EXPECT_NE(zsh.find(name), std::string::npos) << command.path << " " << name;
        const std::string bare = name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        EXPECT_NE(fish.find(bare), std::string::npos) << command.path << " " << name;
        std::string escaped;
        for (const char c : name) escaped += c == '-' ? std::string("\\-") : std::string(1, c);
        const bool own_help = name == "-h" || name == "--help";
        EXPECT_EQ(man.find(escaped) == std::string::npos && !own_help, false) << command.path << " " << name;
      }
    }
  });
  EXPECT_GT(flags, 200);
}

TEST_F(HelpTest, EveryLineOfTheTablesIsOfAnOptionThatIsThere) {
  std::vector<std::string> names;
  std::vector<std::string> paths;
  each(program(), [&](const CommandInfo& command) {
    paths.push_back(command.path);
    for (const OptionInfo& option : command.options)
      names.insert(names.end(), option.names.begin(), option.names.end());
  });
  const auto known = [&names](std::string_view name) { return std::ranges::count(names, name) > 0; };
  for (const OptionValue& line : option_values()) EXPECT_TRUE(known(line.option)) << line.option;
  for (const OptionVariable& line : option_variables()) EXPECT_TRUE(known(line.option)) << line.option;
  for (const ForeignOption& line : foreign_options()) EXPECT_TRUE(known(line.ours)) << line.ours;
  for (const ExampleLine& line : example_lines()) EXPECT_GT(std::ranges::count(paths, line.path), 0) << line.path;
}

TEST_F(HelpTest, HelpIsGroupedAndNarrow) {
  const Ran all = run("--help");
  EXPECT_EQ(all.code, 0);
  for (const char* heading : {"\nServe:\n", "\nAnswer:\n", "\nPrepare:\n", "\nMeasure:\n", "\nExamples:\n"})
    EXPECT_NE(all.out.find(heading), std::string::npos) << heading << all.out;
  const Ran serve = run("serve --help");
  EXPECT_EQ(serve.code, 0);
  for (const char* heading : {"\nServer:\n", "\nLimits:\n", "\nAccess:\n", "\nCache:\n", "\nEnvironment:\n"})
    EXPECT_NE(serve.out.find(heading), std::string::npos) << heading << serve.out;
  EXPECT_NE(serve.out.find("  KVASIR_MODEL "), std::string::npos);
  EXPECT_NE(serve.out.find("--port PORT"), std::string::npos);
  EXPECT_NE(serve.out.find("[8080]"), std::string::npos);
  std::istringstream lines(serve.out);
  for (std::string line; std::getline(lines, line);) {
    const auto columns =
        std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
    EXPECT_LE(columns, 110) << line;
  }
}

TEST_F(HelpTest, AMistakeIsMetWithWhatMayHaveBeenMeant) {
  expect_refused("serve --ctx-sise 3", 2, "did you mean --ctx-size?; see kvasir serve --help");
  expect_refused("srve", 2, "did you mean serve?; see kvasir --help");
  expect_refused("keys ad alice", 2, "did you mean add?; see kvasir keys --help");
  expect_refused("run --max-model-len 3", 2, "here it is called --ctx-size");
  expect_refused("plan --temp 0", 2, "kvasir run has");
  expect_refused("serve --ctx=3", 2, "did you mean --ctx-size?");
  expect_refused("serve --port many", 2, "--port");
  expect_refused("", 2, "see kvasir --help");
  const Ran far = run("serve --quetzalcoatl");
  EXPECT_EQ(far.err.find("did you mean"), std::string::npos) << far.err;
}

TEST_F(HelpTest, EditsAreCounted) {
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("--ctx-size", "--ctx-size"), 0U);
  EXPECT_EQ(edit_distance("serev", "serve"), 1U);  // two letters swapped
  EXPECT_EQ(edit_distance("--prot", "--port"), 1U);
  EXPECT_EQ(edit_distance("tune", "tub"), 2U);
}

TEST_F(HelpTest, TheEnvironmentSpeaksForOptionsOfTheCommandThatIsCalled) {
  const Ran plan = run("plan --json", "/dev/null", "KVASIR_MODEL=llama-3.1-8b KVASIR_KV=int4 ");
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_EQ(plan.out, run("plan -m llama-3.1-8b --kv int4 --json").out);
  EXPECT_NE(plan.out, run("plan -m llama-3.1-8b --json").out);
  const Ran over = run("plan --kv f16 --json", "/dev/null", "KVASIR_MODEL=llama-3.1-8b KVASIR_KV=int4 ");
  EXPECT_EQ(over.out, run("plan -m llama-3.1-8b --json").out);
  const Ran other = run("plan -m llama-3.1-8b --json", "/dev/null", "KVASIR_THREADS=many ");  // plan has no threads
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(run("run -p a", "/dev/null", "KVASIR_THREADS=many ").code, 2);
}

TEST_F(HelpTest, BashCompletes) {
  EXPECT_NE(bash_offers({"kvasir", "se"}).find("\nserve\n"), std::string::npos);
  const std::string options = bash_offers({"kvasir", "serve", "--kv-"});
  EXPECT_NE(options.find("\n--kv-memory\n"), std::string::npos) << options;
  EXPECT_EQ(options.find("--host"), std::string::npos);
  EXPECT_EQ(bash_offers({"kvasir", "serve", "--eviction", "l"}), "\nlru\n");
  EXPECT_EQ(bash_offers({"kvasir", "serve", "--eviction", "=", "f"}), "\nfifo\n");
  EXPECT_EQ(bash_offers({"kvasir", "keys", "re"}), "\nremove\n");
  EXPECT_NE(bash_offers({"kvasir", "keys", "add", "--gu"}).find("\n--guaranteed\n"), std::string::npos);
  EXPECT_EQ(bash_offers({"kvasir", "completions", "z"}), "\nzsh\n");
  written("model.gguf", "");
  EXPECT_EQ(bash_offers({"kvasir", "run", "-m", "mod"}), "\nmodel.gguf\n");
  EXPECT_NE(bash_offers({"kvasir", "run", "-m", "ta"}).find("\ntales\n"), std::string::npos);
}

// Where these programs are, they read what is for them.
TEST_F(HelpTest, ShellsAndManReadTheirs) {
  const auto reads = [&](const std::string& program, const std::string& arguments) {
    if (output_of("command -v " + program).empty()) return std::string("not here");
    return output_of(program + " " + arguments + " 2>&1");
  };
  EXPECT_EQ(reads("bash", "-n " + written("c.bash", run("completions bash").out)), "");
  const std::string zsh = reads("zsh", "-n " + written("c.zsh", run("completions zsh").out));
  EXPECT_TRUE(zsh.empty() || zsh == "not here") << zsh;
  const std::string fish = reads("fish", "--no-execute " + written("c.fish", run("completions fish").out));
  EXPECT_TRUE(fish.empty() || fish == "not here") << fish;
  const std::string man = reads("groff", "-man -K utf8 -ww -z " + written("kvasir.1", run("man").out));
  EXPECT_TRUE(man.empty() || man == "not here") << man;
}

}  // namespace
}  // namespace kvasir::testing
