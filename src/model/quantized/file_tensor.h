// A tensor as its file has it, and numbers of it. Bytes may lie anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "layout/codec.h"

namespace kvasir {

struct FileTensor {
  std::string_view type;                // as safetensors spell it
  std::span<const std::int64_t> shape;  // row-major
  std::span<const std::byte> bytes;     // as many as type and shape call for

  template <class T>
  T at(std::int64_t index) const {
    T value;
    std::memcpy(&value, bytes.data() + static_cast<size_t>(index) * sizeof value, sizeof value);
    return value;
  }
  bool has_floats() const { return type == "F32" || type == "F16" || type == "BF16"; }
  float number(std::int64_t index) const {  // REQUIRES: has_floats()
    if (type == "F16") return CodecF16::decode(at<std::uint16_t>(index));
    return type == "BF16" ? CodecBF16::decode(at<std::uint16_t>(index)) : at<float>(index);
  }
};

using FindTensor = std::function<std::optional<FileTensor>(const std::string& name)>;

}  // namespace kvasir
