// What a folder says of how rows become a vector or a score, as sentence-transformers writes it: modules.json, and a
// folder with a config for each module; and which function makes scores of logits.
#pragma once

#include <filesystem>

#include "base/json_reader.h"
#include "model/spec.h"

namespace kvasir {

// Changes spec.vectors and spec.rerank where the folder has such files. Throws Error for what is not computed here.
void read_sentence_files(const std::filesystem::path& folder, ModelSpec& spec);

// What a config names as the function behind a cross-encoder's logit.
RerankSpec::End rerank_end_of(const JsonReader& config, RerankSpec::End otherwise);

}  // namespace kvasir
