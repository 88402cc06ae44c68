// How GGUF files say what rows behind the last layer become: how they are pooled, what layers lie behind that, and of
// rerankers the classifier.
#pragma once

#include <string>
#include <vector>

#include "model/gguf/gguf_reader.h"
#include "model/gguf/gguf_writer.h"

namespace kvasir {

// Pooling, token types and the classifier of a file.
void read_gguf_heads(const GgufReader& in, DecoderConfig& config);

// spec.vectors.dense, of architectures that have such layers.
void read_gguf_dense(const GgufReader& in, ModelSpec& spec);
std::string gguf_dense_name(size_t index);  // of the tensor of one of them

struct GgufHeads {
  std::vector<GgufOutKey> keys;    // without the architecture's name, but for the tokenizer's
  std::vector<std::string> notes;  // what the file says to us alone
};
GgufHeads gguf_heads_of(const ModelSpec& spec);

// What of a head files of the architecture cannot say; empty: they say all of it.
std::string lost_of_heads(const ModelSpec& want, const ModelSpec& got);

}  // namespace kvasir
