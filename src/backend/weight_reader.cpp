#include "backend/weight_reader.h"

#include <cstring>

#include "base/check.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

template <class Codec>
void read_as(const std::byte* from, int count, float* out) {
  for (int i = 0; i < count; ++i) {
    typename Codec::Stored stored;
    std::memcpy(&stored, from + static_cast<size_t>(i) * sizeof stored, sizeof stored);  // may be unaligned
    out[i] = Codec::decode(stored);
  }
}

}  // namespace

void read_row(const HostWeight& weight, int row, float* out) {
  const size_t row_bytes = bytes_of(weight.dtype) * static_cast<size_t>(weight.cols);
  CHECK(weight.bytes.size() >= row_bytes * static_cast<size_t>(row + 1));
  const std::byte* from = weight.bytes.data() + row_bytes * static_cast<size_t>(row);
  switch (weight.dtype) {
    case DType::kF32:
      return read_as<CodecF32>(from, weight.cols, out);
    case DType::kF16:
      return read_as<CodecF16>(from, weight.cols, out);
    case DType::kBF16:
      return read_as<CodecBF16>(from, weight.cols, out);
  }
}

std::vector<float> read_vector(const HostWeight& weight) {
  CHECK(weight.rows == 1);
  std::vector<float> out(static_cast<size_t>(weight.cols));
  read_row(weight, 0, out.data());
  return out;
}

}  // namespace kvasir
