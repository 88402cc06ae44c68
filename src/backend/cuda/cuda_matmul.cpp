#include "backend/cuda/cuda_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cuda/code_rows.h"
#include "backend/cuda/compare_outputs.h"
#include "backend/cuda/convert_rows.h"
#include "backend/cuda/f32_product.h"
#include "backend/cuda/row_ops.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

const CudaWeight& mine(const Weight& weight) { return static_cast<const CudaWeight&>(weight); }

bool is_coded(const CudaWeight& weight) { return weight.form() != WeightForm::kAsStored; }

CodedProduct coded(const CudaWeight& weight, const Product& product) {
  return {product, weight.scales(), weight.form()};
}

std::string name_of(const char* kernels, StreamShape shape) {
  return fmt::format("{} {}x{} b{}", kernels, shape.tile, shape.cluster, shape.boxes);
}

}  // namespace

CudaMatmul::CudaMatmul(cudaStream_t stream, Activations activations)
    : stream_(stream), loader_(stream, activations), tuner_(stream), coded_(stream, tuner_) {}

std::unique_ptr<Weight> CudaMatmul::load(std::span<const HostWeight> stacked) {
  std::unique_ptr<CudaWeight> out = loader_.load(stacked);
  if (is_coded(*out)) coded_.prepare();
  return out;
}

std::unique_ptr<Weight> CudaMatmul::make_random(int outputs, int inputs, Number number, std::uint64_t seed) {
  auto out = std::make_unique<CudaWeight>(outputs, inputs, number);
  check(cudaMemsetAsync(out->data(), 0, out->memory().size(), stream_), "clearing weights");
  const float scale = 1.0F / std::sqrt(static_cast<float>(inputs));
  fill_random({out->data(), out->ld(), outputs, inputs, number}, scale, seed, stream_);
  check(cudaStreamSynchronize(stream_), "making random weights");
  return out;
}

Product CudaMatmul::product_of(const CudaWeight& weight, int rows) { return product_of(weight, rows, rows_); }

Product CudaMatmul::product_of(const CudaWeight& weight, int rows, DeviceMemory& room) {
  Product product;
  product.number = weight.number();
  product.w = weight.data();
  product.ld_w = weight.ld();
  product.ld_x = weight.ld();
  product.rows = rows;
  product.outputs = weight.outputs();
  product.inputs = static_cast<int>(weight.ld());
  room.grow_to(static_cast<size_t>(ProductTuner::bucket_of(rows) * product.ld_x * bytes_of(product.number)));
  product.x = room.data();
  return product;
}

void CudaMatmul::multiply(const Weight& weight, Matrix x, const float* bias, Matrix out) {
  CHECK(x.cols == weight.inputs() && out.cols == weight.outputs() && x.rows == out.rows);
  if (x.rows == 0) return;
  if (mine(weight).number() == Number::kF32) return multiply_f32_rows(mine(weight), x, bias, out);
  for (int first = 0; first < x.rows; first += ProductTuner::kMostRows) {
    const int rows = std::min(ProductTuner::kMostRows, x.rows - first);
    multiply_some(mine(weight), {x.row(first), rows, x.cols, x.stride}, bias,
                  {out.row(first), rows, out.cols, out.stride});
  }
}

RowsRoom CudaMatmul::make_room(Matrix x, Number number) {
  if (x.rows == 0 || x.rows > ProductTuner::kMostRows || number == Number::kF32) return {};
  const std::int64_t ld = padded(x.cols);
  rows_.grow_to(static_cast<size_t>(ProductTuner::bucket_of(x.rows) * ld * bytes_of(number)));
  ready_ = {x, number};
  return {rows_.data(), ld, number};
}

RowsRoom CudaMatmul::room_for(Matrix x) {
  const auto last = last_numbers_.find(x.cols);
  return last == last_numbers_.end() ? RowsRoom{} : make_room(x, last->second);
}

bool CudaMatmul::knows(const CudaWeight& weight, const Product& product) const {
  return is_coded(weight) ? coded_.knows(coded(weight, product)) : tuner_.knows(product);
}

void CudaMatmul::multiply_some(const CudaWeight& weight, Matrix x, const float* bias, Matrix out) {
  Product product = product_of(weight, x.rows);
  const Matrix& there = ready_.x;
  const bool ready = there.data == x.data && there.rows == x.rows && there.cols == x.cols &&
                     there.stride == x.stride && ready_.number == product.number && knows(weight, product);
  last_numbers_[x.cols] = product.number;
  product.bias = bias;
  product.out = out.data;
  product.ld_out = out.stride;
  run(weight, product, [&](RowsRoom room) {
    if (ready) return;
    convert_rows(x, room.number, room.to, room.ld, stream_);
    forget_rows();
  });
}

// `fill`: when nothing is left to be measured, which overwrites product.x.
void CudaMatmul::run(const CudaWeight& weight, const Product& product, const Fill& fill) {
  const RowsRoom room{const_cast<void*>(product.x), product.ld_x, product.number};
  if (is_coded(weight)) {
    const CodedChoice choice = coded_.choose(coded(weight, product));
    fill(room);
    return coded_.run(coded(weight, product), choice);
  }
  const Choice choice = tuner_.choose(product);
  fill(room);
  tuner_.run(product, choice);
}

bool CudaMatmul::can_fill(const Weight& weight, int rows) {
  return rows <= ProductTuner::kMostRows && mine(weight).number() != Number::kF32;
}

void CudaMatmul::multiply(const Weight& weight, const Fill& fill, const float* bias, Matrix out) {
  CHECK(can_fill(weight, out.rows) && out.cols == weight.outputs());
  if (out.rows == 0) return;
  forget_rows();
  Product product = product_of(mine(weight), out.rows);
  product.bias = bias;
  product.out = out.data;
  product.ld_out = out.stride;
  run(mine(weight), product, fill);
}

void CudaMatmul::multiply_gated(const Weight& down, Matrix gate, Matrix up, const float* bias, Matrix out) {
  forget_rows();
  if (mine(down).number() == Number::kF32) {
    swiglu(gate, up, gate, stream_);
    return multiply(down, gate, bias, out);
  }
  for (int first = 0; first < gate.rows; first += ProductTuner::kMostRows) {
    const int rows = std::min(ProductTuner::kMostRows, gate.rows - first);
    const auto part = [&](const Matrix& of) { return Matrix{of.row(first), rows, of.cols, of.stride}; };
    multiply(
        down, [&](RowsRoom room) { swiglu(part(gate), part(up), room, stream_); }, bias, part(out));
  }
}

bool CudaMatmul::can_gate(const GatedLayer& layer, int rows) {
  const CudaWeight& up = mine(*layer.gate_up);
  return rows <= ProductTuner::kMostRows && up.number() == Number::kBF16 && !is_coded(up) &&
         mine(*layer.down).number() == Number::kBF16 && layer.gate_up_bias == nullptr;
}

// Both are measured before anything is written where that would overwrite it.
void CudaMatmul::multiply_gated(const GatedLayer& layer, const Fill& fill, Matrix between, Matrix out) {
  CHECK(can_gate(layer, out.rows) && between.rows == out.rows && between.cols == layer.gate_up->outputs());
  if (out.rows == 0) return;
  forget_rows();
  Product down = product_of(mine(*layer.down), out.rows, gated_);
  down.bias = layer.down_bias;
  down.out = out.data;
  down.ld_out = out.stride;
  run(mine(*layer.down), down, [&](RowsRoom gated) {
    Product wide = product_of(mine(*layer.gate_up), out.rows);
    wide.gated_out = gated.to;
    wide.ld_gated = gated.ld;
    wide.rounded_out = between.data;
    wide.ld_out = between.cols;
    run(mine(*layer.gate_up), wide, fill);
  });
}

void CudaMatmul::multiply_f32_rows(const CudaWeight& weight, Matrix x, const float* bias, Matrix out) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride % 4 == 0 && x.cols % 4 == 0;
  Product product;
  if (aligned) {
    product.x = x.data;
    product.ld_x = x.stride;
  } else {
    product = product_of(weight, x.rows);
    forget_rows();
    convert_rows(x, Number::kF32, rows_.data(), product.ld_x, stream_);
  }
  product.number = Number::kF32;
  product.w = weight.data();
  product.ld_w = weight.ld();
  product.bias = bias;
  product.out = out.data;
  product.ld_out = out.stride;
  product.rows = x.rows;
  product.outputs = weight.outputs();
  product.inputs = aligned ? x.cols : static_cast<int>(weight.ld());
  multiply_f32(product, stream_);
}

void CudaMatmul::embed(const Weight& table, RowTokens tokens, Matrix out) {
  CHECK(out.cols == table.inputs());
  if (is_coded(mine(table))) {
    const CodedWeights weights{mine(table).data(), mine(table).scales(), table.inputs(), mine(table).form()};
    return gather_codes(weights, tokens, out, stream_);
  }
  gather_rows({mine(table).data(), mine(table).ld(), mine(table).number()}, tokens, out, stream_);
}

std::string CudaMatmul::choice(const Weight& weight, int rows) {
  if (mine(weight).number() == Number::kF32) return "f32";
  const Product product = product_of(mine(weight), std::min(rows, ProductTuner::kMostRows));
  if (is_coded(mine(weight))) {
    const CodedChoice choice = coded_.choose(coded(mine(weight), product));
    const auto* shape = std::get_if<StreamShape>(&choice);
    return shape == nullptr ? "widened" : name_of("codes", *shape);
  }
  const Choice choice = tuner_.choose(product);
  if (const auto* shape = std::get_if<StreamShape>(&choice)) return name_of("stream", *shape);
  return std::holds_alternative<ByMma>(choice) ? "mma" : "cublasLt";
}

}  // namespace kvasir::cuda
