// Shapes of well-known models, so that a plan or a synthetic model needs no download.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace kvasir {

struct NamedShape {
  std::string name;  // as we print it: "llama-3.1-8b"
  ModelSpec config;
  std::optional<std::uint64_t>
      weight_bytes;  // of a GGUF file's tensors, in their own types; none: as the config says
};

const std::vector<NamedShape>& known_models();

// The shape of a known model. Case, '-', '_', '.', ':' and ' ', the vendor ("meta-llama/") and what does not
// change the shape ("-Instruct", "-chat", "-it", "-base", "-hf") do not matter. Throws Error with the closest
// names.
ModelSpec shape_named(std::string_view name);

// A known name, or a shape given as
// "layers=16,hidden=2048,ffn=8192,heads=32,kv_heads=8,head_dim=64,vocab=128256" and, if wanted, context
// (2048), window (none), tied (0 or 1), dtype (bf16) and arch (llama). kv_heads defaults to heads, head_dim
// to hidden / heads. Throws Error naming the key that is wrong.
ModelSpec parse_shape(std::string_view name_or_list);

// What a user may mean by a model: a folder, a config.json or a GGUF file that exists, a list of sizes, or a known
// name.
NamedShape resolve_shape(std::string_view folder_or_file_or_name);
ModelSpec resolve_config(std::string_view folder_or_file_or_name);

}  // namespace kvasir
