// kvasir bench: how fast, and how far from what the machine could do.
#pragma once

namespace CLI {
class App;
}

namespace kvasir {

void add_bench_command(CLI::App& app);

}  // namespace kvasir
