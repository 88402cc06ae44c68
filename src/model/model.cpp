#include "model/model.h"

#include "base/error.h"
#include "model/llama.h"
#include "model/weights.h"

namespace kvasir {

std::unique_ptr<Model> load_model(const std::filesystem::path& folder, Backend& backend, const LoadOptions& options) {
  if (!std::filesystem::is_directory(folder)) {
    fail_input("no such model folder", folder.string(), "give a folder with config.json and model.safetensors");
  }
  const ModelConfig config = load_config(folder);
  check_runnable(config, (folder / "config.json").string());
  return make_llama(config, Weights(folder), backend, options);
}

}  // namespace kvasir
