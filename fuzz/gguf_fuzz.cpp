// A GGUF file of any bytes: tensors inside the file with the bytes of their shapes, and a config that can be planned
// with, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "model/gguf/gguf_config.h"

namespace {

void check(const kvasir::GgufTensor& tensor, std::span<const std::byte> file) {
  std::size_t elements = 1;
  for (const std::int64_t extent : tensor.shape) elements *= static_cast<std::size_t>(extent);
  if (!tensor.dtype) return;
  const std::size_t bytes =
      elements / static_cast<std::size_t>(kvasir::block_elements(*tensor.dtype)) * kvasir::block_bytes(*tensor.dtype);
  if (tensor.bytes.size() != bytes) std::abort();
  if (tensor.bytes.data() < file.data() || tensor.bytes.data() + bytes > file.data() + file.size()) std::abort();
}

// Reads every value, so that the sanitizers see where it lies.
double sum_of(const kvasir::GgufValue& value) {
  double sum = 0;
  if (const auto* numbers = std::get_if<kvasir::GgufNumbers>(&value)) {
    for (std::size_t i = 0; i < numbers->size(); ++i) sum += numbers->at(i);
  } else if (const auto* strings = std::get_if<kvasir::GgufStrings>(&value)) {
    for (const std::string_view text : *strings) sum += text.empty() ? 0 : text.front() + text.back();
  }
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const kvasir::GgufContent content = kvasir::parse_gguf(file, "fuzz");
    for (const auto& [name, tensor] : content.tensors) check(tensor, file);
    volatile double sum = 0;
    for (const auto& [key, value] : content.metadata) sum = sum + sum_of(value);
    const kvasir::ModelSpec config = kvasir::gguf_config({kvasir::GgufFile(content), "fuzz"});
    if (kvasir::parameter_count(config) == 0) std::abort();
    for (const kvasir::KvGroup& group :
         kvasir::kv_groups(config, {kvasir::KvFormat::kF32, kvasir::KvFormat::kF16, {}})) {
      if (kvasir::bytes_per_token(group) <= 0) std::abort();
    }
    kvasir::check_runnable(config, "fuzz");
  } catch (const kvasir::Error&) {
    // What the file deserved.
  }
  return 0;
}
