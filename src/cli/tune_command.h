// kvasir tune: which formats each layer's K and V deserve.
#pragma once

namespace CLI {
class App;
}

namespace kvasir {

void add_tune_command(CLI::App& app);

}  // namespace kvasir
