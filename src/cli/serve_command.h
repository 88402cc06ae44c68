// kvasir serve: the model behind OpenAI's, Anthropic's and Ollama's APIs.
#pragma once

namespace CLI {
class App;
}

namespace kvasir {

// Registers the subcommand. Its callback serves until a signal ends it, and throws Error on bad input.
void add_serve_command(CLI::App& app);

}  // namespace kvasir
