// Models for tests: the committed goldens, with a window laid over them where a test wants one.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/config.h"
#include "model/decoder.h"
#include "model/model.h"
#include "model/tensors.h"
#include "model/weights.h"
#include "support/source_dir.h"

namespace kvasir::testing {

inline std::filesystem::path golden_dir(const std::string& name) {
  return source_dir() / "tests/model/fixtures" / name;
}

// A golden model; `windows` (per layer, 0 = none) makes a hybrid of it, with one cache group a window.
inline std::unique_ptr<Model> load_golden(const std::string& name, Backend& backend, int max_rows = 512,
                                          const std::vector<std::int64_t>& windows = {},
                                          WeightQuantization weights = WeightQuantization::kAsStored) {
  ModelSpec config = load_config(golden_dir(name));
  for (size_t i = 0; i < windows.size(); ++i) config.layers[i].attention.window = windows[i];
  return make_decoder(config, Weights(golden_dir(name), tensors_of(config)), backend, {max_rows, {}, {}, weights});
}

}  // namespace kvasir::testing
