// From a GGUF file's metadata to a ModelSpec.
#pragma once

#include "model/config.h"
#include "model/gguf/gguf_model.h"

namespace kvasir {

// Checked as config.json is: what is missing, of the wrong type, out of range or of an architecture that is not known
// is an Error. Whether the engine can compute it is check_runnable's question.
ModelSpec gguf_config(const GgufModel& model);

}  // namespace kvasir
