// The rope of a config.json: theta, how much of a head is rotated, and the scaling that it names.
#pragma once

#include "base/json_reader.h"
#include "model/gguf/gguf_form.h"

namespace kvasir {

// Reads rope_theta, partial_rotary_factor and rope_parameters or rope_scaling over what config.rope has already. A
// scaling that nobody knows is named there, and refused where a model is made. Throws Error for numbers that make no
// sense.
void read_rope(const JsonReader& in, DecoderConfig& config);

}  // namespace kvasir
