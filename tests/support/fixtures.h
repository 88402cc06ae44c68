// Models for tests: the committed goldens, with a window laid over them where a test wants one.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/json_reader.h"
#include "base/mmap_file.h"
#include "model/config.h"
#include "model/decoder.h"
#include "model/families/family.h"
#include "model/model.h"
#include "model/tensors.h"
#include "model/weights.h"
#include "support/source_dir.h"

namespace kvasir::testing {

inline std::filesystem::path golden_dir(const std::string& name) {
  return source_dir() / "tests/model/fixtures" / name;
}

// Fixtures may be there before the family that runs them.
inline bool family_runs(const std::filesystem::path& folder) {
  const MmapFile file(folder / "config.json");
  const JsonDocument document(file.text(), folder.string(), {1 << 20, "make it anew"});
  const std::optional<JsonReader> text = document.root().find("text_config");
  const std::string_view type = (text ? *text : document.root()).get("model_type").text();
  return std::ranges::any_of(families(), [type](const Family* family) {
    return (family->name == type || family->also == type) && family->not_yet.empty();
  });
}

// A golden model; `windows` (per layer, 0 = none) makes a hybrid of it, with one cache group a window.
inline std::unique_ptr<Model> load_golden(const std::string& name, Backend& backend, int max_rows = 512,
                                          const std::vector<std::int64_t>& windows = {},
                                          WeightQuantization weights = WeightQuantization::kAsStored) {
  ModelSpec config = load_config(golden_dir(name));
  for (size_t i = 0; i < windows.size(); ++i) config.layers[i].attention.window = windows[i];
  config = for_context(config, 0);
  return make_decoder(config, Weights(golden_dir(name), tensors_of(config)), backend, {max_rows, {}, {}, weights});
}

// The same for texts of so many tokens, which settles ropes that depend on that.
inline std::unique_ptr<Model> load_golden_for(const std::string& name, Backend& backend, std::int64_t context) {
  LoadOptions options;
  options.context = context;
  return load_model(golden_dir(name), backend, options);
}

}  // namespace kvasir::testing
