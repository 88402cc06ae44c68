// What a folder says of how rows become a vector, as sentence-transformers writes it: modules.json, and a folder with
// a config for each module.
#pragma once

#include <filesystem>

#include "model/spec.h"

namespace kvasir {

// `otherwise` where there is no modules.json. Throws Error for what is not computed here.
VectorSpec read_sentence_files(const std::filesystem::path& folder, const VectorSpec& otherwise);

}  // namespace kvasir
