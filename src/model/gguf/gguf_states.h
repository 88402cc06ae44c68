// How GGUF files say what the states of recurrent layers are: which layers have them, their sizes, and where their
// tensors lie.
#pragma once

#include <vector>

#include "model/gguf/gguf_reader.h"
#include "model/gguf/gguf_writer.h"
#include "model/tensors.h"

namespace kvasir {

// config.recurrent and config.recurrent_layers, where the architecture has such layers (GgufForm::states). The others
// say how many heads keys have.
void read_gguf_states(const GgufReader& in, DecoderConfig& config);

// The same as keys, without the architecture's name.
std::vector<GgufOutKey> gguf_states_of(const ModelSpec& spec);

// Of a list: where files of the spec's architecture have the tensors of recurrent layers, and of attention beside
// them whose outputs are gated.
void name_state_tensors(const ModelSpec& spec, std::vector<TensorSpec>& tensors);

}  // namespace kvasir
