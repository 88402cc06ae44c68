#include "backend/cuda/gemm/cuda_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cuda/gemm/compare_outputs.h"
#include "backend/cuda/gemm/f32_gemm.h"
#include "backend/cuda/gemm/w8/w8_dequantize.h"
#include "backend/cuda/ops/cast_rows.h"
#include "backend/cuda/ops/elementwise.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

const CudaWeight& mine(const Weight& weight) { return static_cast<const CudaWeight&>(weight); }

bool is_w8(const CudaWeight& weight) { return weight.form() != WeightQuantization::kAsStored; }

W8GemmArgs w8_args(const CudaWeight& weight, const GemmArgs& gemm) { return {gemm, weight.scales(), weight.form()}; }

std::string name_of(const char* kernels, SkinnyShape shape) {
  return fmt::format("{} {}x{} b{}", kernels, shape.tile, shape.cluster, shape.boxes);
}

}  // namespace

CudaMatmul::CudaMatmul(cudaStream_t stream, ActivationPrecision activations)
    : stream_(stream), loader_(stream, activations), autotuner_(stream), w8_(stream, autotuner_) {}

std::unique_ptr<Weight> CudaMatmul::load(std::span<const HostWeight> stacked) {
  std::unique_ptr<CudaWeight> out = loader_.load(stacked);
  if (is_w8(*out)) w8_.prepare();
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

GemmArgs CudaMatmul::gemm_of(const CudaWeight& weight, int rows) { return gemm_of(weight, rows, rows_); }

GemmArgs CudaMatmul::gemm_of(const CudaWeight& weight, int rows, DeviceMemory& input) {
  GemmArgs gemm;
  gemm.number = weight.number();
  gemm.w = weight.data();
  gemm.ld_w = weight.ld();
  gemm.ld_x = weight.ld();
  gemm.rows = rows;
  gemm.outputs = weight.outputs();
  gemm.inputs = static_cast<int>(weight.ld());
  input.grow_to(static_cast<size_t>(GemmAutotuner::bucket_of(rows) * gemm.ld_x * bytes_of(gemm.number)));
  gemm.x = input.data();
  return gemm;
}

void CudaMatmul::multiply(const Weight& weight, Matrix x, const float* bias, Matrix out) {
  CHECK(x.cols == weight.inputs() && out.cols == weight.outputs() && x.rows == out.rows);
  if (x.rows == 0) return;
  if (mine(weight).number() == Number::kF32) return multiply_f32_rows(mine(weight), x, bias, out);
  for (int first = 0; first < x.rows; first += GemmAutotuner::kMostRows) {
    const int rows = std::min(GemmAutotuner::kMostRows, x.rows - first);
    multiply_some(mine(weight), {x.row(first), rows, x.cols, x.stride}, bias,
                  {out.row(first), rows, out.cols, out.stride});
  }
}

GemmInput CudaMatmul::make_gemm_input(Matrix x, Number number) {
  if (x.rows == 0 || x.rows > GemmAutotuner::kMostRows || number == Number::kF32) return {};
  const std::int64_t ld = padded(x.cols);
  rows_.grow_to(static_cast<size_t>(GemmAutotuner::bucket_of(x.rows) * ld * bytes_of(number)));
  ready_ = {x, number};
  return {rows_.data(), ld, number};
}

GemmInput CudaMatmul::gemm_input_for(Matrix x) {
  const auto last = last_numbers_.find(x.cols);
  return last == last_numbers_.end() ? GemmInput{} : make_gemm_input(x, last->second);
}

bool CudaMatmul::knows(const CudaWeight& weight, const GemmArgs& gemm) const {
  return is_w8(weight) ? w8_.knows(w8_args(weight, gemm)) : autotuner_.knows(gemm);
}

void CudaMatmul::multiply_some(const CudaWeight& weight, Matrix x, const float* bias, Matrix out) {
  GemmArgs gemm = gemm_of(weight, x.rows);
  const Matrix& there = ready_.x;
  const bool ready = there.data == x.data && there.rows == x.rows && there.cols == x.cols &&
                     there.stride == x.stride && ready_.number == gemm.number && knows(weight, gemm);
  last_numbers_[x.cols] = gemm.number;
  gemm.bias = bias;
  gemm.out = out.data;
  gemm.ld_out = out.stride;
  run(weight, gemm, [&](GemmInput input) {
    if (ready) return;
    convert_rows(x, input.number, input.to, input.ld, stream_);
    forget_rows();
  });
}

// `fill` runs after measuring, which overwrites gemm.x.
void CudaMatmul::run(const CudaWeight& weight, const GemmArgs& gemm, const Fill& fill) {
  const GemmInput input{const_cast<void*>(gemm.x), gemm.ld_x, gemm.number};
  if (is_w8(weight)) {
    const W8Choice choice = w8_.choose(w8_args(weight, gemm));
    fill(input);
    return w8_.run(w8_args(weight, gemm), choice);
  }
  const Choice choice = autotuner_.choose(gemm);
  fill(input);
  autotuner_.run(gemm, choice);
}

bool CudaMatmul::can_fill(const Weight& weight, int rows) {
  return rows <= GemmAutotuner::kMostRows && mine(weight).number() != Number::kF32;
}

void CudaMatmul::multiply(const Weight& weight, const Fill& fill, const float* bias, Matrix out) {
  CHECK(can_fill(weight, out.rows) && out.cols == weight.outputs());
  if (out.rows == 0) return;
  forget_rows();
  GemmArgs gemm = gemm_of(mine(weight), out.rows);
  gemm.bias = bias;
  gemm.out = out.data;
  gemm.ld_out = out.stride;
  run(mine(weight), gemm, fill);
}

void CudaMatmul::multiply_swiglu(const Weight& down, Matrix gate, Matrix up, const float* bias, Matrix out) {
  forget_rows();
  if (mine(down).number() == Number::kF32) {
    swiglu(gate, up, gate, stream_);
    return multiply(down, gate, bias, out);
  }
  for (int first = 0; first < gate.rows; first += GemmAutotuner::kMostRows) {
    const int rows = std::min(GemmAutotuner::kMostRows, gate.rows - first);
    const auto part = [&](const Matrix& of) { return Matrix{of.row(first), rows, of.cols, of.stride}; };
    multiply(
        down, [&](GemmInput input) { swiglu(part(gate), part(up), input, stream_); }, bias, part(out));
  }
}

bool CudaMatmul::can_fuse_swiglu(const GatedMlp& layer, int rows) {
  const CudaWeight& up = mine(*layer.gate_up);
  return rows <= GemmAutotuner::kMostRows && up.number() == Number::kBF16 && !is_w8(up) &&
         mine(*layer.down).number() == Number::kBF16 && layer.gate_up_bias == nullptr;
}

// Both GEMMs are measured before `fill` runs, since measuring overwrites their inputs.
void CudaMatmul::multiply_swiglu(const GatedMlp& layer, const Fill& fill, Matrix between, Matrix out) {
  CHECK(can_fuse_swiglu(layer, out.rows) && between.rows == out.rows && between.cols == layer.gate_up->outputs());
  if (out.rows == 0) return;
  forget_rows();
  GemmArgs down = gemm_of(mine(*layer.down), out.rows, swiglu_rows_);
  down.bias = layer.down_bias;
  down.out = out.data;
  down.ld_out = out.stride;
  run(mine(*layer.down), down, [&](GemmInput swiglu) {
    GemmArgs gate_up = gemm_of(mine(*layer.gate_up), out.rows);
    gate_up.swiglu_out = swiglu.to;
    gate_up.ld_swiglu = swiglu.ld;
    gate_up.gate_up_out = between.data;
    gate_up.ld_out = between.cols;
    run(mine(*layer.gate_up), gate_up, fill);
  });
}

void CudaMatmul::multiply_f32_rows(const CudaWeight& weight, Matrix x, const float* bias, Matrix out) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride % 4 == 0 && x.cols % 4 == 0;
  GemmArgs gemm;
  if (aligned) {
    gemm.x = x.data;
    gemm.ld_x = x.stride;
  } else {
    gemm = gemm_of(weight, x.rows);
    forget_rows();
    convert_rows(x, Number::kF32, rows_.data(), gemm.ld_x, stream_);
  }
  gemm.number = Number::kF32;
  gemm.w = weight.data();
  gemm.ld_w = weight.ld();
  gemm.bias = bias;
  gemm.out = out.data;
  gemm.ld_out = out.stride;
  gemm.rows = x.rows;
  gemm.outputs = weight.outputs();
  gemm.inputs = aligned ? x.cols : static_cast<int>(weight.ld());
  multiply_f32(gemm, stream_);
}

void CudaMatmul::embed(const Weight& table, RowTokens tokens, Matrix out) {
  CHECK(out.cols == table.inputs());
  if (is_w8(mine(table))) {
    const W8Weights weights{mine(table).data(), mine(table).scales(), table.inputs(), mine(table).form()};
    return gather_w8(weights, tokens, out, stream_);
  }
  gather_rows({mine(table).data(), mine(table).ld(), mine(table).number()}, tokens, out, stream_);
}

std::string CudaMatmul::choice(const Weight& weight, int rows) {
  if (mine(weight).number() == Number::kF32) return "f32";
  const GemmArgs gemm = gemm_of(mine(weight), std::min(rows, GemmAutotuner::kMostRows));
  if (is_w8(mine(weight))) {
    const W8Choice choice = w8_.choose(w8_args(mine(weight), gemm));
    const auto* shape = std::get_if<SkinnyShape>(&choice);
    return shape == nullptr ? "dequantized" : name_of("w8", *shape);
  }
  const Choice choice = autotuner_.choose(gemm);
  if (const auto* shape = std::get_if<SkinnyShape>(&choice)) return name_of("skinny", *shape);
  return std::holds_alternative<ByMma>(choice) ? "mma" : "cublasLt";
}

}  // namespace kvasir::cuda
