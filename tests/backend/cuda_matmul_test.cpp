// GEMMs on a GPU: a row's bits, whatever rows are beside it and whichever kernel runs. There are none without a
// device.
#include "backend/cuda/gemm/cuda_matmul.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backend/cuda/ops/cast_rows.h"
#include "backend/cuda/ops/elementwise.h"
#include "backend/quant/row_codes.h"
#include "backend/weight_reader.h"
#include "support/cuda_data.h"
#include "support/cuda_matmul_fixture.h"

namespace kvasir::cuda {
namespace {

using testing::CudaRows;
using testing::download;

struct Case {
  Number number;
  int outputs;
  int inputs;
  int most;  // rows
  WeightQuantization form = WeightQuantization::kAsStored;
};

std::string name_of(const Case& test) {
  if (test.form != WeightQuantization::kAsStored) return std::string(kvasir::name_of(test.form));
  return test.number == Number::kBF16 ? "bf16" : test.number == Number::kF16 ? "f16" : "f32";
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  if (!testing::has_cuda_device()) return out;
  for (const Number number : {Number::kBF16, Number::kF16, Number::kF32}) {
    out.push_back({number, 1, 1, 300});
    out.push_back({number, 7, 5, 300});
    out.push_back({number, 33, 17, 300});
    out.push_back({number, 100, 200, 300});
    out.push_back({number, 257, 1000, 300});
    out.push_back({number, 31, 4104, 300});
    out.push_back({number, 1024, 768, 2048});
    out.push_back({number, 2048, 768, 2600});
    if (number == Number::kF32) continue;
    out.push_back({number, 6144, 4096, 2048});
    out.push_back({number, 4096, 14336, 2048});
  }
  for (const WeightQuantization form : {WeightQuantization::kInt8, WeightQuantization::kFp8}) {
    for (const Case& shape :
         std::vector<Case>{{Number::kBF16, 1, 1, 300},
                           {Number::kBF16, 7, 5, 300},
                           {Number::kBF16, 100, 200, 300},
                           {Number::kBF16, 257, 1000, 300},
                           {Number::kBF16, 31, 4104, 300},
                           {Number::kBF16, 2048, 768, 2600},
                           {Number::kBF16, 4096, 4096, 2048},
                           {Number::kBF16, 17001, 8192, 700}}) {  // the last in more than one slab
      out.push_back(shape);
      out.back().form = form;
    }
  }
  return out;
}

Matrix row_of(Matrix matrix, int row) { return {matrix.row(row), 1, matrix.cols, matrix.stride}; }

std::vector<float> as_floats(const void* from, Number number, size_t count) {
  if (number == Number::kF32) return download<float>(from, count);
  const std::vector<std::uint16_t> bits = download<std::uint16_t>(from, count);
  const DType type = number == Number::kF16 ? DType::kF16 : DType::kBF16;
  return read_vector({std::as_bytes(std::span(bits)), type, 1, static_cast<int>(count)});
}

class CudaMatmulTest : public testing::CudaMatmulFixture, public ::testing::WithParamInterface<Case> {
 protected:
  std::unique_ptr<Weight> random_weight() {
    auto numbers = matmul_->make_random(GetParam().outputs, GetParam().inputs, GetParam().number, 3);
    if (GetParam().form == WeightQuantization::kAsStored) return numbers;
    const std::vector<std::uint16_t> rows = rows_of(*numbers);
    const HostWeight weight{std::as_bytes(std::span(rows)), DType::kBF16, GetParam().outputs, GetParam().inputs,
                            GetParam().form};
    return matmul_->load({&weight, 1});
  }
  // Of numbers of 16 bits, without their padding.
  static std::vector<std::uint16_t> rows_of(const Weight& weight) {
    const auto& on_device = dynamic_cast<const CudaWeight&>(weight);
    const auto ld = static_cast<size_t>(on_device.ld());
    const auto inputs = static_cast<size_t>(weight.inputs());
    std::vector<std::uint16_t> bits =
        download<std::uint16_t>(on_device.data(), static_cast<size_t>(weight.outputs()) * ld);
    for (size_t r = 1; r < static_cast<size_t>(weight.outputs()); ++r) {
      std::copy_n(bits.begin() + static_cast<std::ptrdiff_t>(r * ld), inputs,
                  bits.begin() + static_cast<std::ptrdiff_t>(r * inputs));
    }
    return bits;
  }
  // The numbers of random_weight()'s first outputs, in rows of ld.
  std::vector<float> numbers_of(size_t outputs, size_t ld) {
    auto numbers = matmul_->make_random(GetParam().outputs, GetParam().inputs, GetParam().number, 3);
    std::vector<float> out =
        as_floats(dynamic_cast<const CudaWeight&>(*numbers).data(), GetParam().number, outputs * ld);
    if (GetParam().form == WeightQuantization::kAsStored) return out;
    for (size_t o = 0; o < outputs; ++o) round_to_codes(GetParam().form, std::span(out).subspan(o * ld, ld));
    return out;
  }
  CudaRows random_rows() const { return {GetParam().most, GetParam().inputs, 5, stream_}; }
};

TEST_P(CudaMatmulTest, ARowsBitsDoNotDependOnTheRowsBesideIt) {
  const auto weight = random_weight();
  const CudaRows x = random_rows();
  const CudaRows alone(GetParam().most, GetParam().outputs, 6, stream_);
  const CudaRows out(GetParam().most, GetParam().outputs, 7, stream_);
  std::vector<int> watched;
  for (const int r : {0, 1, 2, 7, 8, 15, 16, 63, 64, 127, 128, 299, 1000, 2047, 2048, 2599}) {
    if (r < GetParam().most) watched.push_back(r);
  }
  for (const int r : watched) matmul_->multiply(*weight, row_of(x.matrix, r), nullptr, row_of(alone.matrix, r));
  for (const int rows : {1, 2, 3, 5, 8, 13, 16, 17, 33, 64, 65, 100, 128, 200, 300, 511, 777, 1025, 2048, 2600}) {
    if (rows > GetParam().most) continue;
    poison(out.matrix);
    matmul_->multiply(*weight, x.matrix.first_rows(rows), nullptr, out.matrix.first_rows(rows));
    for (const int r : watched) {
      if (r >= rows) continue;
      EXPECT_TRUE(same_bits(row_of(alone.matrix, r), row_of(out.matrix, r))) << "row " << r << " of " << rows;
    }
  }
}

TEST_P(CudaMatmulTest, ValuesAreTheSumsOfTheRoundedOperands) {
  const auto weight = random_weight();
  const auto& on_device = dynamic_cast<const CudaWeight&>(*weight);
  const CudaRows x = random_rows();
  const CudaRows out(3, GetParam().outputs, 6, stream_);
  matmul_->multiply(*weight, x.matrix.first_rows(3), nullptr, out.matrix);
  const auto ld = static_cast<size_t>(on_device.ld());
  const DeviceMemory converted(3 * ld * static_cast<size_t>(bytes_of(GetParam().number)));
  convert_rows(x.matrix.first_rows(3), GetParam().number, converted.data(), on_device.ld(), stream_);
  check(cudaStreamSynchronize(stream_), "multiplying");

  const auto outputs = static_cast<size_t>(std::min(GetParam().outputs, 64));
  const std::vector<float> rows = as_floats(converted.data(), GetParam().number, 3 * ld);
  const std::vector<float> w = numbers_of(outputs, ld);
  double error = 0;
  double size = 0;
  for (size_t r = 0; r < 3; ++r) {
    const std::vector<float> got = download<float>(out.matrix.row(static_cast<int>(r)), outputs);
    for (size_t o = 0; o < outputs; ++o) {
      double sum = 0;
      for (size_t k = 0; k < ld; ++k) sum += static_cast<double>(rows[r * ld + k]) * w[o * ld + k];
      error += (got[o] - sum) * (got[o] - sum);
      size += sum * sum;
    }
  }
  EXPECT_LT(std::sqrt(error / size), 2e-5);
}

TEST_P(CudaMatmulTest, TheBiasIsAddedToTheSumWhereverTheOutputLies) {
  const auto weight = random_weight();
  const CudaRows x = random_rows();
  const CudaRows bias(1, GetParam().outputs, 11, stream_);
  for (const int rows : {1, 20, 300}) {
    const CudaRows plain(rows, GetParam().outputs, 8, stream_);
    const CudaRows wide(rows, GetParam().outputs + 3, 9, stream_);
    const Matrix out = wide.matrix.columns(1, GetParam().outputs);  // neither aligned nor dense
    matmul_->multiply(*weight, x.matrix.first_rows(rows), nullptr, plain.matrix);
    matmul_->multiply(*weight, x.matrix.first_rows(rows), bias.matrix.data, out);
    add_bias(bias.matrix.data, plain.matrix, stream_);
    EXPECT_TRUE(same_bits(plain.matrix, out)) << rows << " rows";
  }
}

TEST_P(CudaMatmulTest, EveryKernelHasTheSameBits) {
  if (GetParam().number == Number::kF32) GTEST_SKIP() << "float32 has one kernel";
  if (GetParam().form != WeightQuantization::kAsStored) GTEST_SKIP() << "see EveryW8KernelHasTheSameBits";
  const auto weight = random_weight();
  const auto& on_device = dynamic_cast<const CudaWeight&>(*weight);
  const CudaRows x = random_rows();
  const GemmAutotuner autotuner(stream_);
  for (const int rows : {1, 3, 8, 9, 16, 20, 40, 64, 65, 200}) {
    const DeviceMemory converted(static_cast<size_t>(rows * on_device.ld() * 2));
    convert_rows(x.matrix.first_rows(rows), GetParam().number, converted.data(), on_device.ld(), stream_);
    const CudaRows by_mma(rows, GetParam().outputs, 9, stream_);
    const CudaRows out(rows, GetParam().outputs, 10, stream_);
    GemmArgs gemm;
    gemm.w = on_device.data();
    gemm.x = converted.data();
    gemm.out = by_mma.matrix.data;
    gemm.ld_w = gemm.ld_x = on_device.ld();
    gemm.ld_out = out.matrix.stride;
    gemm.rows = rows;
    gemm.outputs = GetParam().outputs;
    gemm.inputs = static_cast<int>(on_device.ld());
    gemm.number = GetParam().number;
    poison(by_mma.matrix);
    autotuner.run(gemm, ByMma{});
    gemm.out = out.matrix.data;
    for (const SkinnyShape shape : testing::all_skinny_shapes()) {
      if (!autotuner.skinny().can_do(gemm, shape)) continue;
      poison(out.matrix);
      autotuner.run(gemm, shape);
      EXPECT_TRUE(same_bits(by_mma.matrix, out.matrix))
          << "skinny " << shape.tile << "x" << shape.cluster << " b" << shape.boxes << ", " << rows << " rows";
    }
  }
}

// SwiGLU of gate and up outputs: in the epilogue, or after mma.sync rounded them in memory.
TEST_P(CudaMatmulTest, EverySwigluKernelHasTheSameBits) {
  if (GetParam().number != Number::kBF16 || GetParam().form != WeightQuantization::kAsStored ||
      GetParam().outputs % 2 != 0) {
    GTEST_SKIP() << "no SwiGLU of this shape";
  }
  const auto weight = random_weight();
  const auto& on_device = dynamic_cast<const CudaWeight&>(*weight);
  const CudaRows x = random_rows();
  const GemmAutotuner autotuner(stream_);
  const int width = GetParam().outputs / 2;
  for (const int rows : {1, 3, 16, 20, 64, 65, 200}) {
    const DeviceMemory converted(static_cast<size_t>(rows * on_device.ld() * 2));
    convert_rows(x.matrix.first_rows(rows), Number::kBF16, converted.data(), on_device.ld(), stream_);
    const auto bytes = static_cast<size_t>(rows) * static_cast<size_t>(padded(width)) * 2;
    const DeviceMemory by_mma(bytes);
    const DeviceMemory out(bytes);
    const CudaRows sums(rows, GetParam().outputs, 9, stream_);
    const DeviceMemory between(static_cast<size_t>(rows) * static_cast<size_t>(GetParam().outputs) * 2);
    GemmArgs gemm;
    gemm.w = on_device.data();
    gemm.x = converted.data();
    gemm.out = sums.matrix.data;
    gemm.ld_w = gemm.ld_x = on_device.ld();
    gemm.ld_out = GetParam().outputs;
    gemm.rows = rows;
    gemm.outputs = GetParam().outputs;
    gemm.inputs = static_cast<int>(on_device.ld());
    // Float32 sums, through the SwiGLU kernel that rounds and casts.
    autotuner.run(gemm, ByMma{});
    const GemmInput room{by_mma.data(), padded(width), Number::kBF16};
    swiglu(sums.matrix.columns(0, width), sums.matrix.columns(width, width), room, stream_);
    const auto expected = download<std::uint16_t>(by_mma.data(), bytes / 2);
    gemm.gate_up_out = between.data();
    gemm.swiglu_out = out.data();
    gemm.ld_swiglu = padded(width);
    const auto expect_same = [&](const Choice& choice, const std::string& name) {
      check(cudaMemsetAsync(out.data(), 0xff, bytes, stream_), "poisoning");
      autotuner.run(gemm, choice);
      EXPECT_EQ(download<std::uint16_t>(out.data(), bytes / 2), expected) << name << ", " << rows << " rows";
    };
    expect_same(ByMma{}, "mma");
    for (const SkinnyShape shape : testing::all_skinny_shapes()) {
      if (!autotuner.skinny().can_do(gemm, shape)) continue;
      expect_same(shape, fmt::format("skinny {}x{} b{}", shape.tile, shape.cluster, shape.boxes));
    }
  }
}

TEST_P(CudaMatmulTest, EveryW8KernelHasTheSameBits) {
  if (GetParam().form == WeightQuantization::kAsStored) GTEST_SKIP() << "see EveryKernelHasTheSameBits";
  const auto weight = random_weight();
  const auto& on_device = dynamic_cast<const CudaWeight&>(*weight);
  const CudaRows x = random_rows();
  const CudaRows bias(1, GetParam().outputs, 11, stream_);
  GemmAutotuner autotuner(stream_);
  W8Dispatch ways(stream_, autotuner);
  ways.prepare();
  for (const int rows : {1, 3, 8, 9, 20, 40, 64, 65, 128, 200}) {
    const DeviceMemory converted(static_cast<size_t>(rows * on_device.ld() * 2));
    convert_rows(x.matrix.first_rows(rows), Number::kBF16, converted.data(), on_device.ld(), stream_);
    const CudaRows dequantized(rows, GetParam().outputs, 9, stream_);
    const CudaRows out(rows, GetParam().outputs, 10, stream_);
    W8GemmArgs gemm;
    gemm.form = GetParam().form;
    gemm.scales = on_device.scales();
    gemm.of.w = on_device.data();
    gemm.of.x = converted.data();
    gemm.of.bias = bias.matrix.data;
    gemm.of.out = dequantized.matrix.data;
    gemm.of.ld_x = on_device.ld();
    gemm.of.ld_out = out.matrix.stride;
    gemm.of.rows = rows;
    gemm.of.outputs = GetParam().outputs;
    gemm.of.inputs = static_cast<int>(on_device.ld());
    poison(dequantized.matrix);
    ways.run(gemm, DequantChoice{ByMma{}});
    gemm.of.out = out.matrix.data;
    for (const int tile : kW8Tiles) {
      for (const int cluster : {1, 2, 4}) {
        for (const int boxes : {2, 4}) {
          const SkinnyShape shape{tile, cluster, boxes};
          if (!ways.w8_skinny().can_do(gemm.of, shape)) continue;
          poison(out.matrix);
          ways.run(gemm, shape);
          EXPECT_TRUE(same_bits(dequantized.matrix, out.matrix))
              << "w8 " << tile << "x" << cluster << " b" << boxes << ", " << rows << " rows";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaMatmulTest, ::testing::ValuesIn(all_cases()), [](const auto& test) {
  return fmt::format("{}_{}x{}", name_of(test.param), test.param.outputs, test.param.inputs);
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaMatmulTest);

}  // namespace
}  // namespace kvasir::cuda
