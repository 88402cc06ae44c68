#include "model/model.h"

#include "base/error.h"
#include "model/llama.h"
#include "model/weights.h"

namespace kvasir {

std::unique_ptr<Model> load_model(const std::filesystem::path& path, Backend& backend, const LoadOptions& options) {
  if (!std::filesystem::exists(path)) {
    fail_input("there is no such model", path.string(),
               "give a folder with config.json and model.safetensors, or a .gguf file");
  }
  const ModelConfig config = load_config(path);
  check_runnable(config, path.string());
  return make_llama(config, Weights(path), backend, options);
}

}  // namespace kvasir
