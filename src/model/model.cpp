#include "model/model.h"

#include <algorithm>

#include "base/error.h"
#include "model/config.h"
#include "model/decoder.h"
#include "model/kv_basis.h"
#include "model/tensors.h"
#include "model/weights.h"

namespace kvasir {
namespace {

// An encoder reads a text in one step.
int longest_text(const ModelSpec& spec, std::int64_t context) {
  constexpr std::int64_t kMostRows = 1 << 16;
  return static_cast<int>(std::min({context > 0 ? context : spec.context, spec.context, kMostRows}));
}

}  // namespace

std::unique_ptr<Model> load_model(const std::filesystem::path& path, Backend& backend, const LoadOptions& options) {
  if (!std::filesystem::exists(path)) {
    fail_input("there is no such model", path.string(),
               "give a folder with config.json and model.safetensors, or a .gguf file");
  }
  const ModelSpec spec = for_context(load_config(path), options.context);
  check_runnable(spec, path.string());
  check_limits(spec, backend, path.string());
  LoadOptions resolved = options;
  if (spec.encodes()) resolved.max_rows = std::max(options.max_rows, longest_text(spec, options.context));
  std::unique_ptr<Model> model = make_decoder(spec, Weights(path, tensors_of(spec)), backend, resolved);
  if (!options.kv_basis.empty()) {
    model->use_basis(load_kv_basis(options.kv_basis, spec, model->stored_fingerprint()));
  }
  return model;
}

}  // namespace kvasir
