// kvasir run: a prompt in, text out; a chat on a terminal.
#pragma once

#include "kvasir/kvasir.h"

namespace CLI {
class App;
}

namespace kvasir {

// Registers the subcommand. Its callback throws Error on bad input.
void add_run_command(CLI::App& app);

// Loads a model with a progress bar on a terminal.
Llm load_with_progress(LlmOptions options);

// "prompt 12 tokens, 0 reused, 8 ms | answer 100 tokens, 512 tokens/s": one line for stderr.
std::string timing_line(const Answer& answer);

}  // namespace kvasir
