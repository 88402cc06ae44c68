#include <cmath>
#include <limits>

#include "backend/backends.h"
#include "backend/quant/encode.h"
#include "backend/weight_reader.h"
#include "layout/codec_f16.h"

namespace kvasir::testing {
namespace {

using MatmulTest = OpTest;
INSTANTIATE_TEST_SUITE_P(Forms, MatmulTest, ::testing::ValuesIn(all_forms()), form_name);

TEST_P(MatmulTest, EqualsRefForOddShapesAndEveryType) {
  struct Shape {
    int rows, outputs, inputs;
  };
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const Shape& shape : std::vector<Shape>{{1, 1, 1},
                                                 {1, 16, 16},
                                                 {1, 200, 33},
                                                 {3, 17, 64},
                                                 {5, 129, 300},
                                                 {13, 40, 257},
                                                 {40, 70, 513},
                                                 {64, 300, 90}}) {
      const OwnedWeight weight(shape.outputs, shape.inputs, dtype, 1);
      const OwnedMatrix x(shape.rows, shape.inputs, 2);
      const std::vector<float> bias = noise_vector(static_cast<size_t>(shape.outputs), 3);
      OwnedMatrix expected(shape.rows, shape.outputs);
      OwnedMatrix got(shape.rows, shape.outputs);
      const std::vector<HostWeight> stacked{weight.view};
      ref_->run(MatmulOp{ref_->load(stacked).get(), x.view, bias.data(), expected.view});
      tested_->run(MatmulOp{tested_->load(stacked).get(), x.view, bias.data(), got.view});
      EXPECT_LT(relative_error(got.values, expected.values), matmul_tolerance(GetParam(), dtype))
          << name_of(dtype) << " " << shape.rows << "x" << shape.outputs << "x" << shape.inputs;
    }
  }
}

TEST_P(MatmulTest, ARowsBitsDoNotDependOnItsNeighbours) {
  const int outputs = 75;
  const int inputs = 530;  // more than one block of inputs
  const OwnedWeight weight(outputs, inputs, DType::kBF16, 4);
  const std::vector<HostWeight> stacked{weight.view};
  const auto loaded = tested_->load(stacked);
  const OwnedMatrix x(50, inputs, 5);
  OwnedMatrix all(50, outputs);
  tested_->run(MatmulOp{loaded.get(), x.view, nullptr, all.view});
  for (const int rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 24, 25, 49}) {
    OwnedMatrix some(rows, outputs);
    tested_->run(MatmulOp{loaded.get(), x.view.first_rows(rows), nullptr, some.view});
    EXPECT_EQ(std::vector(all.values.begin(), all.values.begin() + rows * outputs), some.values) << rows;
  }
}

std::vector<DType> quantized_types() {
  std::vector<DType> out;
  for (const WeightType& entry : kWeightTypes) {
    if (is_quantized(entry.type)) out.push_back(entry.type);
  }
  return out;
}
const std::vector<DType> kQuantized = quantized_types();

TEST_P(MatmulTest, EqualsRefForQuantizedWeights) {
  for (const DType dtype : kQuantized) {
    for (const int rows : {1, 2, 3, 4, 7, 12, 13, 30}) {
      for (const int inputs : {256, 768}) {
        const OwnedWeight weight(37, inputs, dtype, 21);
        const OwnedMatrix x(rows, inputs, 22);
        OwnedMatrix expected(rows, 37);
        OwnedMatrix got(rows, 37);
        Backend& ref = ref_for(dtype);
        ref.run(MatmulOp{ref.load(std::vector{weight.view}).get(), x.view, nullptr, expected.view});
        tested_->run(MatmulOp{tested_->load(std::vector{weight.view}).get(), x.view, nullptr, got.view});
        EXPECT_LT(relative_error(got.values, expected.values), matmul_tolerance(GetParam(), dtype))
            << name_of(dtype) << " " << rows << "x" << inputs;
      }
    }
  }
}

TEST_P(MatmulTest, AQuantizedRowsBitsDoNotDependOnItsNeighbours) {
  for (const DType dtype : kQuantized) {
    const int outputs = 150;
    const OwnedWeight weight(outputs, 512, dtype, 23);
    const auto loaded = tested_->load(std::vector{weight.view});
    const OwnedMatrix x(26, 512, 24);
    OwnedMatrix all(26, outputs);
    tested_->run(MatmulOp{loaded.get(), x.view, nullptr, all.view});
    for (const int rows : {1, 2, 3, 4, 5, 6, 7, 12, 13, 25}) {
      OwnedMatrix some(rows, outputs);
      tested_->run(MatmulOp{loaded.get(), x.view.first_rows(rows), nullptr, some.view});
      EXPECT_EQ(std::vector(all.values.begin(), all.values.begin() + rows * outputs), some.values)
          << name_of(dtype) << " " << rows;
    }
  }
}

// So many that panels are spread for them, and more inputs than are taken at a time.
TEST_P(MatmulTest, ManyQuantizedRowsHaveTheBitsOfEachAlone) {
  constexpr int kRows = 61;
  constexpr int kInputs = 2304;
  constexpr int kOutputs = 40;
  for (const DType dtype : kQuantized) {
    const OwnedWeight weight(kOutputs, kInputs, dtype, 25);
    const auto loaded = tested_->load(std::vector{weight.view});
    const OwnedMatrix x(kRows, kInputs, 26);
    OwnedMatrix all(kRows, kOutputs);
    tested_->run(MatmulOp{loaded.get(), x.view, nullptr, all.view});
    for (const int row : {0, 5, 47, 60}) {
      OwnedMatrix one(1, kOutputs);
      tested_->run(MatmulOp{loaded.get(), {x.view.row(row), 1, kInputs, kInputs}, nullptr, one.view});
      const float* begin = all.view.row(row);
      EXPECT_EQ(std::vector(begin, begin + kOutputs), one.values) << name_of(dtype) << ", row " << row;
    }
  }
}

TEST_P(MatmulTest, AnEmbeddingIsTheDecodedRow) {
  std::vector<DType> types = kQuantized;
  types.insert(types.end(), {DType::kF32, DType::kF16, DType::kBF16});
  for (const DType dtype : types) {
    const OwnedWeight weight(40, 512, dtype, 25);
    const auto loaded = tested_->load(std::vector{weight.view});
    const std::vector<TokenId> tokens{0, 15, 16, 39};
    OwnedMatrix got(4, 512);
    tested_->run(EmbedOp{loaded.get(), tokens, got.view});
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::vector<float> expected(512);
      read_row(weight.view, tokens[i], expected.data());
      if (on_gpu(GetParam()) && is_quantized(dtype)) {  // where they are kept as f16
        for (float& value : expected) value = CodecF16::decode(CodecF16::encode(value));
      }
      EXPECT_EQ(std::vector(got.view.row(static_cast<int>(i)), got.view.row(static_cast<int>(i)) + 512), expected)
          << name_of(dtype);
    }
  }
}

// Rows of zeros, of one huge number, of tiny ones: scales at their edges. Rows of one number: sums at theirs.
TEST_P(MatmulTest, QuantizedRowsAtTheirEdges) {
  for (const DType dtype : kQuantized) {
    if (!has_integers(dtype)) continue;  // beside which rows stay as they are
    const OwnedWeight weight(20, 256, dtype, 26);
    OwnedMatrix x(6, 256, 27);
    for (int c = 0; c < 256; ++c) {
      x.view.row(0)[c] = 0.0F;
      x.view.row(1)[c] = c == 77 ? 1e30F : 1.0F;
      x.view.row(2)[c] *= 1e-29F;
      x.view.row(3)[c] *= 1e-36F;
      x.view.row(4)[c] = 1.0F;
      x.view.row(5)[c] = -1.0F;
    }
    OwnedMatrix expected(6, 20);
    OwnedMatrix got(6, 20);
    ref_->run(MatmulOp{ref_->load(std::vector{weight.view}).get(), x.view, nullptr, expected.view});
    tested_->run(MatmulOp{tested_->load(std::vector{weight.view}).get(), x.view, nullptr, got.view});
    for (int r = 0; r < 6; ++r) {
      const std::vector<float> a(got.view.row(r), got.view.row(r) + 20);
      const std::vector<float> b(expected.view.row(r), expected.view.row(r) + 20);
      if (on_gpu(GetParam())) {  // rows as f16 cannot be of these sizes: they stay finite
        for (const float value : a) EXPECT_TRUE(std::isfinite(value)) << name_of(dtype) << " " << r;
        continue;
      }
      EXPECT_LT(relative_error(a, b), matmul_tolerance(GetParam(), dtype)) << name_of(dtype) << " " << r;
    }
  }
}

// Wherever it is: an answer that hides it would be worse than none.
TEST_P(MatmulTest, ARowWithWhatIsNoNumberHasNoNumbers) {
  for (const DType dtype : kQuantized) {
    const OwnedWeight weight(20, 512, dtype, 30);
    const auto loaded = tested_->load(std::vector{weight.view});
    for (const int at : {0, 7, 31, 200, 300, 511}) {
      OwnedMatrix x(3, 512, 31);
      x.view.row(1)[at] = std::numeric_limits<float>::quiet_NaN();
      OwnedMatrix got(3, 20);
      tested_->run(MatmulOp{loaded.get(), x.view, nullptr, got.view});
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(std::isfinite(got.view.row(0)[i])) << name_of(dtype);
        EXPECT_TRUE(std::isnan(got.view.row(1)[i])) << name_of(dtype) << " at " << at;
        EXPECT_TRUE(std::isfinite(got.view.row(2)[i])) << name_of(dtype);
      }
    }
  }
}

// Rows whose numbers become smaller from 32 to 32: beside *_k weights every part has a shift of its own.
TEST_P(MatmulTest, PartsOfAGroupAreOfAnySize) {
  for (const DType dtype : {DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_XS}) {
    const OwnedWeight weight(37, 512, dtype, 28);
    OwnedMatrix x(8, 512, 29);
    for (int r = 0; r < 8; ++r) {
      for (int c = 0; c < 512; ++c) x.view.row(r)[c] *= std::pow(0.6F, static_cast<float>((c / 32 + r) % 8));
    }
    OwnedMatrix expected(8, 37);
    OwnedMatrix got(8, 37);
    Backend& ref = ref_for(dtype);
    ref.run(MatmulOp{ref.load(std::vector{weight.view}).get(), x.view, nullptr, expected.view});
    tested_->run(MatmulOp{tested_->load(std::vector{weight.view}).get(), x.view, nullptr, got.view});
    EXPECT_LT(relative_error(got.values, expected.values), matmul_tolerance(GetParam(), dtype)) << name_of(dtype);
  }
}

// A part of small numbers beside large ones is rounded to an eighth of what those are.
TEST(MatmulRowsTest, SmallPartsOfAGroupAreHeldFinely) {
  const auto ref = make_ref_backend();
  std::vector<float> ones(256, 0.0F);
  std::fill_n(ones.begin() + 32, 32, 1.0F);
  std::vector<std::byte> bytes(row_bytes(DType::kQ6_K, 256));
  encode_row(DType::kQ6_K, ones.data(), 256, bytes.data());
  const HostWeight weight{bytes, DType::kQ6_K, 1, 256};
  const auto loaded = ref->load(std::vector{weight});
  const float steps = 1000.0F / 127;  // of plain integers of 8 bits
  for (const auto& [largest, finer] : {std::pair{1000.0F, 1}, {501.0F, 1}, {500.0F, 2}, {250.0F, 4}, {10.0F, 8}}) {
    OwnedMatrix x(1, 256);
    x.values[0] = 1000.0F;
    x.values[32] = largest;
    for (int c = 33; c < 64; ++c) x.values[static_cast<size_t>(c)] = steps / static_cast<float>(finer) * 0.51F;
    OwnedMatrix out(1, 1);
    ref->run(MatmulOp{loaded.get(), x.view, nullptr, out.view});
    const float rounded =
        steps / static_cast<float>(finer) * std::nearbyint(largest * static_cast<float>(finer) / steps);
    EXPECT_NEAR(out.values[0], rounded + 31 * steps / static_cast<float>(finer), 0.01F * steps * 31) << largest;
  }
}

TEST_P(MatmulTest, RowsStayExactWhenAsked) {
  const auto tested = make_form(GetParam(), ActivationPrecision::kF32);
  for (const DType dtype : {DType::kBF16, DType::kQ8_0, DType::kQ4_K, DType::kIQ4_NL, DType::kInt4x32}) {
    const int inputs = is_quantized(dtype) ? 512 : 301;
    const OwnedWeight weight(50, inputs, dtype, 11);
    const OwnedMatrix x(7, inputs, 12);
    OwnedMatrix expected(7, 50);
    OwnedMatrix got(7, 50);
    OwnedMatrix rounded(7, 50);
    exact_ref_->run(MatmulOp{exact_ref_->load(std::vector{weight.view}).get(), x.view, nullptr, expected.view});
    tested->run(MatmulOp{tested->load(std::vector{weight.view}).get(), x.view, nullptr, got.view});
    ref_->run(MatmulOp{ref_->load(std::vector{weight.view}).get(), x.view, nullptr, rounded.view});
    EXPECT_LT(relative_error(got.values, expected.values), matmul_tolerance(GetParam(), DType::kF32))
        << name_of(dtype);
    EXPECT_GT(relative_error(rounded.values, expected.values), 1e-4) << name_of(dtype) << ": not rounded by default";
  }
}

// Numbers of every size, down to those that are not normal: hardware that flushes them and kernels that stand in for
// it must agree.
TEST(MatmulBitsTest, EveryFormGivesTheSameBitsForEveryType) {
  std::vector<DType> types = kQuantized;
  types.insert(types.end(), {DType::kF32, DType::kF16, DType::kBF16});
  for (const DType dtype : types) {
    const int inputs = is_quantized(dtype) ? 768 : 333;
    for (const float scale : {1.0F, 1e-18F, 1e-30F, 1e18F}) {
      OwnedWeight weight(40, inputs, dtype, 13);
      OwnedMatrix x(9, inputs, 14);
      for (float& value : x.values) value *= scale;
      if (dtype == DType::kBF16) {
        // Tiny weights of any sign: a few among others, or, where rows are of ordinary size, nothing else.
        const size_t step = scale == 1.0F ? 2 : 10;
        for (size_t i = 0; i < weight.bytes.size(); i += step) weight.bytes[i + 1] &= std::byte{0x80};
      }
      for (const ActivationPrecision activations : {ActivationPrecision::kAsWeights, ActivationPrecision::kF32}) {
        std::vector<float> expected;
        for (const auto& backend : all_backends(activations)) {
          OwnedMatrix got(9, 40);
          backend->run(MatmulOp{backend->load(std::vector{weight.view}).get(), x.view, nullptr, got.view});
          if (expected.empty()) expected = got.values;
          EXPECT_EQ(std::memcmp(expected.data(), got.values.data(), expected.size() * sizeof(float)), 0)
              << backend->description() << " " << name_of(dtype) << " " << scale << " " << name_of(activations);
        }
      }
    }
  }
}

TEST_P(MatmulTest, StackedWeightsAreOneMatrix) {
  const OwnedWeight a(20, 32, DType::kF16, 6);
  const OwnedWeight b(7, 32, DType::kF16, 7);
  const OwnedMatrix x(2, 32, 8);
  OwnedMatrix both(2, 27);
  OwnedMatrix first(2, 20);
  OwnedMatrix second(2, 7);
  tested_->run(MatmulOp{tested_->load(std::vector{a.view, b.view}).get(), x.view, nullptr, both.view});
  tested_->run(MatmulOp{tested_->load(std::vector{a.view}).get(), x.view, nullptr, first.view});
  tested_->run(MatmulOp{tested_->load(std::vector{b.view}).get(), x.view, nullptr, second.view});
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 27; ++c) {
      EXPECT_EQ(both.view.row(r)[c], c < 20 ? first.view.row(r)[c] : second.view.row(r)[c - 20]);
    }
  }
}

TEST_P(MatmulTest, WritesOnlyItsOwnColumns) {
  const OwnedWeight weight(21, 16, DType::kF32, 9);
  const auto loaded = tested_->load(std::vector{weight.view});
  for (const int rows : {1, 4, 30}) {
    const OwnedMatrix x(rows, 16, 10);
    OwnedMatrix wide(rows, 40);
    for (float& value : wide.values) value = -7.0F;
    tested_->run(MatmulOp{loaded.get(), x.view, nullptr, wide.view.columns(5, 21)});
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < 40; ++c) {
        EXPECT_EQ(wide.view.row(r)[c] == -7.0F, c < 5 || c >= 26) << r << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
