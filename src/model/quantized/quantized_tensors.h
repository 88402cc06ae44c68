// Quantized matrices of safetensors, by the name that the plain one would have.
//
// What is in the files decides, tensor by tensor: a module that was not quantized has its plain tensor. Of X.weight:
//
//   X.weight in F8_E4M3, X.weight_scale_inv or X.weight_scale    fp8: a scale for blocks, outputs, or all
//   X.weight in I8, X.weight_scale                               compressed-tensors: int8
//   X.weight_packed, X.weight_scale, X.weight_zero_point,        compressed-tensors: integers of 4 or 8 bits in
//   words,
//     X.weight_g_idx, X.weight_shape                             along the inputs
//   X.qweight, X.qzeros, X.scales, X.g_idx                       GPTQ: words along the inputs; AWQ: along the outputs
//
// Of any name N, matrices of all experts of a layer: N_blocks and N_scales, as gpt-oss has them: MXFP4, [experts]
// [outputs][inputs / 32][16], whatever order the plain N would have.
#pragma once

#include <optional>
#include <string>

#include "model/quantized/coded_matrix.h"
#include "model/quantized/file_tensor.h"
#include "model/quantized/quantization_config.h"

namespace kvasir {

// What is asked for: [rows][cols], of one expert where `experts` are in one tensor.
struct AskedMatrix {
  std::string name;  // of the plain tensor
  int rows = 0;
  int cols = 0;
  int expert = -1;  // -1: the tensor holds this matrix alone
  int experts = 0;
};

class QuantizedTensors {
 public:
  // `config`: none where the folder has none.
  QuantizedTensors(std::optional<QuantizationConfig> config, std::string where)
      : config_(config), where_(std::move(where)) {}

  // Its rows in a quantized type, one below the other; none where the files hold no quantized tensors of that name.
  // Throws Error: shapes that do not belong together, scales that are missing or not finite.
  std::optional<RelaidMatrix> read(const AskedMatrix& asked, const FindTensor& find) const;

  const std::optional<QuantizationConfig>& config() const { return config_; }

 private:
  std::optional<QuantizationConfig> config_;
  std::string where_;
};

}  // namespace kvasir
