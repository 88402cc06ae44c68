// kvasir convert: a Hugging Face folder as one GGUF file, its weights in another type if wanted.
#pragma once

namespace CLI {
class App;
}

namespace kvasir {

void add_convert_command(CLI::App& app);

}  // namespace kvasir
