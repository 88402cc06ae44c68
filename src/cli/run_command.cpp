#include "cli/run_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>

#include "base/error.h"
#include "cli/chat.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/progress.h"

namespace kvasir {
namespace {

struct RunOptions {
  ModelOptions model;
  GenerateOptions generate;
  std::string prompt;
  std::string system;
  std::int64_t seed = -1;
  bool chat = false;   // read the prompt as a user's message
  bool quiet = false;  // no timings
  CLI::Option* prompt_given = nullptr;
};

void add_generate_options(CLI::App& command, RunOptions& options) {
  const std::string group = "Answer";
  GenerateOptions& g = options.generate;
  command.add_option("-n,--predict", g.max_tokens, "Tokens at the most")->capture_default_str()->group(group);
  // Unset, these are the model's (generation_config.json), or else those of with_habits().
  command.add_option("--temp", g.temperature, "Temperature; 0: always the likeliest token [the model's, or 0.8]")
      ->group(group);
  command.add_option("--top-k", g.top_k, "Only the k likeliest tokens; 0: all [the model's, or 40]")->group(group);
  command.add_option("--top-p", g.top_p, "Only the likeliest tokens that together reach p [the model's, or 0.95]")
      ->group(group);
  command
      .add_option("--min-p", g.min_p,
                  "Only tokens at least this share as likely as the likeliest [the model's, or 0.05]")
      ->group(group);
  command
      .add_option("--repeat-penalty", g.repetition_penalty,
                  "Above 1: tokens already there become less likely [the model's, or 1]")
      ->group(group);
  command.add_option("--frequency-penalty", g.frequency_penalty, "Taken off for each time a token was answered")
      ->capture_default_str()
      ->group(group);
  command.add_option("--presence-penalty", g.presence_penalty, "Taken off once if a token was answered")
      ->capture_default_str()
      ->group(group);
  command.add_option("-s,--seed", options.seed, "Seed of the draw; -1: a new one each time")
      ->capture_default_str()
      ->group(group);
  command.add_flag("--ignore-eos", g.ignore_eos, "Go on past the end of the text")->group(group);
}

// A model that names no sampling is drawn as llama.cpp's users are used to.
GenerateOptions with_habits(GenerateOptions options, const Llm& llm) {
  if (llm.model().sampling.empty()) {
    options.temperature = options.temperature.value_or(0.8F);
    options.top_k = options.top_k.value_or(40);
    options.top_p = options.top_p.value_or(0.95F);
    options.min_p = options.min_p.value_or(0.05F);
  }
  return llm.resolved(std::move(options));
}

std::string piped_prompt() {
  std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

void run_once(Llm& llm, const RunOptions& options, const std::string& prompt) {
  const InterruptScope interrupt;
  const Llm::OnText print = [&interrupt](std::string_view piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
    return interrupt.interrupted() ? Llm::Next::kStop : Llm::Next::kContinue;
  };
  Answer answer;
  if (options.chat) {
    std::vector<Message> messages;
    if (!options.system.empty()) messages.push_back({"system", options.system});
    messages.push_back({"user", prompt});
    answer = llm.chat(messages, options.generate, print);
  } else {
    answer = llm.generate(prompt, options.generate, print);
  }
  std::fputc('\n', stdout);
  std::fflush(stdout);
  if (!options.quiet)
    fmt::print(stderr, "\n{}, seed {}, on {}\n", timing_line(answer), options.generate.seed, llm.model().backend);
}

void run(RunOptions& options) {
  const bool interactive = options.prompt_given->empty() && ::isatty(STDIN_FILENO) == 1;
  std::string prompt = options.prompt;
  if (options.prompt_given->empty() && !interactive) prompt = piped_prompt();
  if (!interactive && prompt.empty())
    fail_usage("the prompt is empty", "-p", "give some text with -p, or pipe it in");
  options.generate.seed = options.seed < 0 ? std::random_device{}() : static_cast<std::uint64_t>(options.seed);
  Llm llm = load_with_progress(llm_options(options.model));
  options.generate = with_habits(options.generate, llm);
  if (interactive) {
    chat_on_terminal(llm, {options.generate, options.system});
  } else {
    run_once(llm, options, prompt);
  }
}

}  // namespace

Llm load_with_progress(LlmOptions options) {
  Progress progress("loading");
  options.on_load = [&progress](int done, int all) {
    progress.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(all),
                  fmt::format("layer {} of {}", done, all));
  };
  return Llm(options);
}

std::string timing_line(const Answer& answer) {
  const auto prompt = static_cast<double>(answer.prompt_tokens - answer.reused_tokens);
  const auto decoded = static_cast<double>(answer.tokens.size()) - 1;
  const double decode_seconds = answer.total_seconds - answer.first_token_seconds;
  std::string line = fmt::format("prompt {} tokens, {} reused, {:.0f} ms", answer.prompt_tokens, answer.reused_tokens,
                                 answer.first_token_seconds * 1e3);
  if (answer.first_token_seconds > 0) line += fmt::format(" ({:.0f} tokens/s)", prompt / answer.first_token_seconds);
  line += fmt::format(" | answer {} tokens", answer.tokens.size());
  if (decoded > 0 && decode_seconds > 0) line += fmt::format(", {:.1f} tokens/s", decoded / decode_seconds);
  if (answer.draft_tokens > 0)
    line += fmt::format(", {} of {} draft tokens right", answer.accepted_tokens, answer.draft_tokens);
  return line + ", ended by " + answer.finish;
}

void add_run_command(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  options->generate.max_tokens = 1024;  // a whole story, where a library's callers want their answers bounded
  CLI::App* command = app.add_subcommand("run", "Answer a prompt; chat on a terminal");
  command->footer("Piped input is the prompt. The answer goes to stdout, everything else to stderr.");
  options->prompt_given = command->add_option("-p,--prompt", options->prompt, "Text to continue");
  command->add_flag("--chat", options->chat, "Read the prompt as a user's message, in the model's chat format");
  command->add_option("--system", options->system, "System message of a chat");
  command->add_flag("-q,--quiet", options->quiet, "No timings");
  add_generate_options(*command, *options);
  add_model_options(*command, options->model);
  options->model.draft = "auto";
  add_draft_options(*command, options->model);
  command->callback([options] { run(*options); });
}

}  // namespace kvasir
