// kvasir rerank: a query and documents in, a line of JSON with a score for each document out, the best first.
#pragma once

namespace CLI {
class App;
}

namespace kvasir {

// Registers the subcommand. Its callback throws Error on bad input.
void add_rerank_command(CLI::App& app);

}  // namespace kvasir
