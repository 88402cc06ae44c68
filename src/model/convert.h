// From a Hugging Face folder, or a GGUF file, to one GGUF file, as llama.cpp and others read it too.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/gguf/gguf_writer.h"
#include "model/tensors.h"

namespace kvasir {

struct ConvertOptions {
  DType weights = DType::kF16;  // one that can_encode()
  GgufWriteOptions write;
};

// The type that a tensor gets when `wanted` was asked for. Vectors, routers and positions stay f32. With q4_k the two
// tables, the embedding and the head, become q6_k. Rows that are not whole blocks become q8_0, or else f16.
DType converted_type(DType wanted, const TensorSpec& tensor);

// Throws Error when `model` is not one that the engine runs and GGUF can tell of, or a number does not fit the type.
// `tokenizer`: the tokenizer.* keys, which this does not know how to make. Returns notes: what the file says and
// llama.cpp does not read, a sentence each.
std::vector<std::string> convert_to_gguf(const std::filesystem::path& model, const std::filesystem::path& out,
                                         std::vector<GgufOutKey> tokenizer, const ConvertOptions& options);

}  // namespace kvasir
