// kvasir eval: what KV policies cost in quality, and what they save.
#pragma once

namespace CLI {
class App;
}

namespace kvasir {

void add_eval_command(CLI::App& app);

}  // namespace kvasir
