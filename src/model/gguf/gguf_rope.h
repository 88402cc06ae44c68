// Ropes in GGUF: keys of the architecture, and tensors of what frequencies are divided by.
#pragma once

#include <string>
#include <vector>

#include "model/gguf/gguf_reader.h"
#include "model/gguf/gguf_writer.h"

namespace kvasir {

// A tensor that says what the model is, beside its weights.
struct GgufVector {
  std::string name;
  std::vector<float> values;
};

// config.rope, for heads of config.head_dim.
void read_gguf_rope(const GgufReader& in, DecoderConfig& config);

// Of latent attention: what yarn makes of config.rope's magnitude and config.attention_scale, which files give by one
// number. kKept: whatever that is, the magnitude is what the file says; kDivided: it is divided by what it makes.
// REQUIRES: read_gguf_rope().
enum class YarnMagnitude : std::uint8_t { kKept, kDivided };
void read_latent_yarn(const GgufReader& in, YarnMagnitude magnitude, DecoderConfig& config);

struct GgufRope {
  std::vector<GgufOutKey> keys;  // without the architecture
  std::vector<GgufVector> vectors;
};

// What a file says of the spec's first rope, which is that of layers without a window.
GgufRope gguf_rope_of(const ModelSpec& spec);

// Whether a layer's queries and keys are turned alike, but for rounding to float32, in texts of any length.
bool same_rope(const ModelSpec& a, const ModelSpec& b, int layer);

}  // namespace kvasir
