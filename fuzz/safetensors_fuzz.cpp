// A safetensors file of any bytes: tensors inside the file, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  try {
    for (const auto& [name, tensor] : kvasir::parse_safetensors(file, "fuzz")) {
      if (tensor.bytes.empty()) continue;
      if (tensor.bytes.data() < file.data() || tensor.bytes.data() + tensor.bytes.size() > file.data() + size)
        std::abort();
    }
  } catch (const kvasir::Error&) {
    // What the file deserved.
  }
  return 0;
}
