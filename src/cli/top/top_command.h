// kvasir top: a running server's cache and requests in a terminal, from the stream that its page reads.
#pragma once

namespace CLI {
class App;
}

namespace kvasir {

// Registers the subcommand. Throws Error on a server that cannot be reached or does not let its caller in.
void add_top_command(CLI::App& app);

}  // namespace kvasir
