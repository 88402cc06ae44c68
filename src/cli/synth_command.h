// kvasir synth: a model with random weights, of a known or a given shape.
#pragma once

namespace CLI {
class App;
}

namespace kvasir {

void add_synth_command(CLI::App& app);

}  // namespace kvasir
