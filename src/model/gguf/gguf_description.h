// A spec as the metadata of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "model/gguf/gguf_rope.h"
#include "model/gguf/gguf_writer.h"
#include "model/spec.h"

namespace kvasir {

struct GgufDescription {
  std::vector<GgufOutKey> keys;     // general.architecture and those of the architecture
  std::vector<GgufVector> vectors;  // factors of rope frequencies
  std::vector<std::string> notes;   // what the file says and llama.cpp does not read, a sentence each
};

// What is written is read again before it is believed: a spec that comes back as another one is an Error that names
// what the architecture has no words for.
GgufDescription describe_as_gguf(const ModelSpec& spec, const std::string& where);

}  // namespace kvasir
