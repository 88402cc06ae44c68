#include "backend/weight_reader.h"

#include "backend/quant/decode.h"
#include "backend/quant/row_codes.h"
#include "base/check.h"

namespace kvasir {

void read_row(const HostWeight& weight, int row, float* out) {
  const size_t bytes = row_bytes(weight.dtype, weight.cols);
  CHECK(weight.bytes.size() >= bytes * static_cast<size_t>(row + 1));
  decode_row(weight.dtype, weight.bytes.data() + bytes * static_cast<size_t>(row), weight.cols, out);
}

void read_kept_row(const HostWeight& weight, int row, float* out) {
  read_row(weight, row, out);
  if (weight.form != WeightQuantization::kAsStored)
    round_to_codes(weight.form, {out, static_cast<size_t>(weight.cols)});
}

std::vector<float> read_vector(const HostWeight& weight) {
  CHECK(weight.rows == 1);
  std::vector<float> out(static_cast<size_t>(weight.cols));
  read_row(weight, 0, out.data());
  return out;
}

}  // namespace kvasir
