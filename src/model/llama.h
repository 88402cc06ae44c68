// The Llama architecture: Llama 2, 3, 3.1, 3.2, SmolLM2, TinyLlama and their like. MHA, GQA and MQA by config.
#pragma once

#include <memory>

#include "model/model.h"
#include "model/tensor_source.h"

namespace kvasir {

std::unique_ptr<Model> make_llama(const ModelConfig& config, const TensorSource& weights, Backend& backend,
                                  const LoadOptions& options);

}  // namespace kvasir
