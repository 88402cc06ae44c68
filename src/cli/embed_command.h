// kvasir embed: texts in, a line of JSON with a vector for each out.
#pragma once

namespace CLI {
class App;
}

namespace kvasir {

// Registers the subcommand. Its callback throws Error on bad input.
void add_embed_command(CLI::App& app);

}  // namespace kvasir
