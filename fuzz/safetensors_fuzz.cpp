// A safetensors file of any bytes: tensors inside the file, and matrices of what of them is quantized, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "model/quantized/quantized_tensors.h"
#include "model/safetensors.h"

namespace {

// The matrices of the seeds, as every method would read them.
void read_quantized_matrices(const kvasir::TensorMap& tensors) {
  using kvasir::QuantizationConfig;
  const kvasir::FindTensor find = [&](const std::string& name) -> std::optional<kvasir::FileTensor> {
    const auto found = tensors.find(name);
    if (found == tensors.end()) return std::nullopt;
    return kvasir::FileTensor{found->second.dtype, found->second.shape, found->second.bytes};
  };
  for (const auto method : {QuantizationConfig::Method::kGptq, QuantizationConfig::Method::kAwq}) {
    QuantizationConfig config;
    config.method = method;
    config.block = {4, 32};
    const kvasir::QuantizedTensors quantized(config, "fuzz");
    for (const kvasir::AskedMatrix& asked : {kvasir::AskedMatrix{"a.weight", 8, 64}, {"e", 2, 32, 1, 2}}) {
      try {
        const auto made = quantized.read(asked, find);
        const size_t row = made ? kvasir::row_bytes(made->dtype, asked.cols) : 0;
        if (made && made->bytes.size() != row * static_cast<size_t>(asked.rows)) std::abort();
      } catch (const kvasir::Error&) {
        // What the tensors deserved.
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const kvasir::TensorMap tensors = kvasir::parse_safetensors(file, "fuzz");
    for (const auto& [name, tensor] : tensors) {
      if (tensor.bytes.empty()) continue;
      if (tensor.bytes.data() < file.data() || tensor.bytes.data() + tensor.bytes.size() > file.data() + size)
        std::abort();
    }
    read_quantized_matrices(tensors);
  } catch (const kvasir::Error&) {
    // What the file deserved.
  }
  return 0;
}
