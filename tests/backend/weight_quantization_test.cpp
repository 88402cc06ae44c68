// Weights that become codes of 8 bits as they are loaded: the codes, and products with them on every backend.
#include "backend/weight_quantization.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "backend/backends.h"
#include "backend/quant/row_codes.h"
#include "backend/weight_reader.h"
#include "base/error.h"

namespace kvasir::testing {
namespace {

constexpr WeightQuantization kForms[] = {WeightQuantization::kInt8, WeightQuantization::kFp8};

HostWeight in_form(HostWeight weight, WeightQuantization form) {
  weight.form = form;
  return weight;
}

TEST(RowCodesTest, TheNumberFurthestFromZeroHasTheLargestCode) {
  const std::vector<float> row{0.5F, -3.0F, 1.2F, 0.0F};
  std::vector<std::uint8_t> codes(row.size());
  EXPECT_FLOAT_EQ(encode_codes(WeightQuantization::kInt8, row, codes.data()), 3.0F / 127);
  EXPECT_EQ(codes, (std::vector<std::uint8_t>{21, 129, 51, 0}));  // 21.17, -127, 50.8
  EXPECT_FLOAT_EQ(encode_codes(WeightQuantization::kFp8, row, codes.data()), 3.0F / 448);
  EXPECT_EQ(codes, (std::vector<std::uint8_t>{0x69, 0xfe, 0x73, 0}));  // 72 of 74.67, -448, 176 of 179.2
}

TEST(RowCodesTest, CodesAreExactInBf16) {
  for (int code = 0; code < 256; ++code) {
    const float integer = decode_code(WeightQuantization::kInt8, static_cast<std::uint8_t>(code));
    EXPECT_EQ(integer, code < 128 ? code : code - 256);
    EXPECT_EQ(CodecBF16::decode(CodecBF16::encode(integer)), integer);
    if ((code & 0x7f) == 0x7f) continue;  // no number, and no code of ours
    const float number = decode_code(WeightQuantization::kFp8, static_cast<std::uint8_t>(code));
    EXPECT_EQ(CodecBF16::decode(CodecBF16::encode(number)), number);
  }
}

TEST(RowCodesTest, RowsAreRoundedToTheNearestCodes) {
  const std::vector<float> row = noise_vector(1000, 1);
  const float largest = std::abs(*std::ranges::max_element(row, {}, [](float x) { return std::abs(x); }));
  for (const WeightQuantization form : kForms) {
    std::vector<float> rounded = row;
    round_to_codes(form, rounded);
    double error = 0;
    double size = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const float off = std::abs(rounded[i] - row[i]);
      const float step =
          form == WeightQuantization::kInt8 ? largest / 127 : std::max(std::abs(row[i]) / 8, largest / 448 / 512);
      EXPECT_LE(off, step * 0.501F) << name_of(form) << " " << row[i];
      error += off * off;
      size += row[i] * row[i];
    }
    EXPECT_LT(std::sqrt(error / size), form == WeightQuantization::kInt8 ? 0.01 : 0.03) << name_of(form);
    EXPECT_GT(error, 0);
  }
}

TEST(RowCodesTest, RowsThatAreHardlyNumbers) {
  for (const WeightQuantization form : kForms) {
    std::vector<std::uint8_t> codes(3, 7);
    for (const float small : {0.0F, 1e-44F, 1e-38F}) {
      EXPECT_EQ(encode_codes(form, std::vector{small, -small, 0.0F}, codes.data()), 0.0F) << small;
      EXPECT_EQ(codes, std::vector<std::uint8_t>(3, 0)) << small;
    }
    for (const float none : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      EXPECT_TRUE(std::isnan(encode_codes(form, std::vector{1.0F, none, 0.0F}, codes.data()))) << none;
    }
    EXPECT_GT(encode_codes(form, std::vector{1e-30F, 3e38F, 0.0F}, codes.data()), 0.0F);
  }
}

TEST(WeightQuantizationTest, HasNames) {
  for (const WeightQuantization form :
       {WeightQuantization::kAsStored, WeightQuantization::kInt8, WeightQuantization::kFp8}) {
    EXPECT_EQ(parse_weight_quantization(name_of(form)), form);
  }
  EXPECT_THROW(parse_weight_quantization("int4"), Error);
  EXPECT_THROW(parse_weight_quantization(""), Error);
}

// Decoded, as any weights: what the forms stand for.
struct DecodedWeight {
  DecodedWeight(const HostWeight& weight, WeightQuantization form)
      : numbers(static_cast<size_t>(weight.rows) * static_cast<size_t>(weight.cols)) {
    for (int r = 0; r < weight.rows; ++r) {
      read_kept_row(in_form(weight, form), r,
                    numbers.data() + static_cast<size_t>(r) * static_cast<size_t>(weight.cols));
    }
    view = {std::as_bytes(std::span(numbers)), DType::kF32, weight.rows, weight.cols};
  }
  std::vector<float> numbers;
  HostWeight view;
};

OwnedMatrix rounded_to_bf16(OwnedMatrix x) {
  for (float& value : x.values) value = CodecBF16::decode(CodecBF16::encode(value));
  x.view.data = x.values.data();
  return x;
}

TEST(WeightQuantizationTest, RefMultipliesWhatCodesStandFor) {
  const auto ref = make_ref_backend();
  for (const WeightQuantization form : kForms) {
    const OwnedWeight weight(40, 257, DType::kBF16, 1);
    const DecodedWeight decoded(weight.view, form);
    const OwnedMatrix x = rounded_to_bf16(OwnedMatrix(3, 257, 2));
    OwnedMatrix expected(3, 40);
    OwnedMatrix plain(3, 40);
    OwnedMatrix got(3, 40);
    ref->run(MatmulOp{ref->load(std::vector{decoded.view}).get(), x.view, nullptr, expected.view});
    ref->run(MatmulOp{ref->load(std::vector{weight.view}).get(), x.view, nullptr, plain.view});
    ref->run(MatmulOp{ref->load(std::vector{in_form(weight.view, form)}).get(), x.view, nullptr, got.view});
    EXPECT_LT(relative_error(got.values, expected.values), 1e-6) << name_of(form);
    EXPECT_GT(relative_error(got.values, plain.values), 1e-3) << name_of(form) << ": nothing was rounded";
  }
}

using FormMatmulTest = OpTest;
INSTANTIATE_TEST_SUITE_P(Forms, FormMatmulTest, ::testing::ValuesIn(all_forms()), form_name);

class FormMatmulOnGpuTest : public OpTest {};  // elsewhere weights are taken as they are stored
INSTANTIATE_TEST_SUITE_P(Forms, FormMatmulOnGpuTest, ::testing::ValuesIn(gpu_forms()), form_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FormMatmulOnGpuTest);

TEST_P(FormMatmulTest, EqualsThePlainProductOfWhatCodesStandFor) {
  struct Shape {
    int rows, outputs, inputs;
  };
  for (const WeightQuantization form : kForms) {
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kQ4_K}) {
      for (const Shape& shape : std::vector<Shape>{
               {1, 1, 1}, {1, 200, 33}, {3, 17, 64}, {5, 129, 300}, {13, 40, 257}, {70, 75, 513}, {200, 300, 90}}) {
        const int inputs = is_quantized(dtype) ? 512 : shape.inputs;
        const OwnedWeight weight(shape.outputs, inputs, dtype, 1);
        const HostWeight kept = in_form(weight.view, form);
        if (!on_gpu(GetParam())) {
          EXPECT_THROW(tested_->load(std::vector{kept}), Error);
          continue;
        }
        const DecodedWeight decoded(weight.view, form);
        const OwnedMatrix x = rounded_to_bf16(OwnedMatrix(shape.rows, inputs, 2));
        const std::vector<float> bias = noise_vector(static_cast<size_t>(shape.outputs), 3);
        OwnedMatrix expected(shape.rows, shape.outputs);
        OwnedMatrix got(shape.rows, shape.outputs);
        ref_->run(MatmulOp{ref_->load(std::vector{decoded.view}).get(), x.view, bias.data(), expected.view});
        tested_->run(MatmulOp{tested_->load(std::vector{kept}).get(), x.view, bias.data(), got.view});
        const double tolerance = matmul_tolerance(GetParam(), DType::kBF16);
        EXPECT_LT(relative_error(got.values, expected.values), tolerance)
            << name_of(form) << " of " << name_of(dtype) << " " << shape.rows << "x" << shape.outputs << "x"
            << inputs;
      }
    }
  }
}

TEST_P(FormMatmulOnGpuTest, ARowsBitsDoNotDependOnItsNeighbours) {
  for (const WeightQuantization form : kForms) {
    const int outputs = 1100;
    const int inputs = 1030;  // large enough to be measured
    const OwnedWeight weight(outputs, inputs, DType::kBF16, 4);
    const auto loaded = tested_->load(std::vector{in_form(weight.view, form)});
    const OwnedMatrix x(200, inputs, 5);
    OwnedMatrix all(200, outputs);
    tested_->run(MatmulOp{loaded.get(), x.view, nullptr, all.view});
    for (const int rows : {1, 2, 3, 4, 7, 8, 9, 16, 25, 49, 64, 65, 100, 128, 129, 199}) {
      OwnedMatrix some(rows, outputs);
      tested_->run(MatmulOp{loaded.get(), x.view.first_rows(rows), nullptr, some.view});
      EXPECT_EQ(std::vector(all.values.begin(), all.values.begin() + rows * outputs), some.values)
          << name_of(form) << " " << rows;
    }
  }
}

TEST_P(FormMatmulOnGpuTest, AnEmbeddingIsTheDecodedRowAndStackedWeightsAreOneMatrix) {
  for (const WeightQuantization form : kForms) {
    const OwnedWeight a(21, 300, DType::kBF16, 6);
    const OwnedWeight b(19, 300, DType::kBF16, 7);
    const auto loaded = tested_->load(std::vector{in_form(a.view, form), in_form(b.view, form)});
    std::vector<TokenId> tokens(40);
    std::iota(tokens.begin(), tokens.end(), 0);
    OwnedMatrix got(40, 300);
    tested_->run(EmbedOp{loaded.get(), tokens, got.view});
    std::vector<float> expected(300);
    for (int r = 0; r < 40; ++r) {
      read_kept_row(r < 21 ? in_form(a.view, form) : in_form(b.view, form), r < 21 ? r : r - 21, expected.data());
      EXPECT_EQ(std::vector(got.view.row(r), got.view.row(r) + 300), expected) << name_of(form) << " " << r;
    }
  }
}

TEST_P(FormMatmulOnGpuTest, RowsStayExactWhenAsked) {
  const auto tested = make_form(GetParam(), ActivationPrecision::kF32);
  for (const WeightQuantization form : kForms) {
    const OwnedWeight weight(50, 301, DType::kBF16, 11);
    const std::vector<HostWeight> kept{in_form(weight.view, form)};
    const OwnedMatrix x(7, 301, 12);
    OwnedMatrix expected(7, 50);
    OwnedMatrix rounded(7, 50);
    OwnedMatrix got(7, 50);
    exact_ref_->run(MatmulOp{exact_ref_->load(kept).get(), x.view, nullptr, expected.view});
    ref_->run(MatmulOp{ref_->load(kept).get(), x.view, nullptr, rounded.view});
    tested->run(MatmulOp{tested->load(kept).get(), x.view, nullptr, got.view});
    EXPECT_LT(relative_error(got.values, expected.values), matmul_tolerance(GetParam(), DType::kF32));
    EXPECT_GT(relative_error(rounded.values, expected.values), 1e-4) << "not rounded by default";
  }
}

}  // namespace
}  // namespace kvasir::testing
