// Every op but matmul and attention against ref.
#include "backend/backends.h"
#include "backend/rope.h"

namespace kvasir::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Forms, OpTest, ::testing::ValuesIn(all_forms()), form_name);

constexpr int kWidths[] = {1, 6, 16, 20, 64, 384, 1000};

TEST_P(OpTest, RmsNorm) {
  for (const int width : kWidths) {
    const OwnedMatrix x(11, width, 1);
    const std::vector<float> weight = noise_vector(static_cast<size_t>(width), 2);
    OwnedMatrix expected(11, width);
    OwnedMatrix got(11, width);
    ref_->run(NormOp{x.view, {weight.data(), 1e-5F}, expected.view});
    tested_->run(NormOp{x.view, {weight.data(), 1e-5F}, got.view});
    EXPECT_LT(relative_error(got.values, expected.values), 2e-6) << width;
  }
}

TEST_P(OpTest, LayerNormWithAndWithoutBias) {
  for (const int width : kWidths) {
    if (width == 1) continue;  // its variance is 0: nothing to compare but noise
    const OwnedMatrix x(11, width, 3);
    const std::vector<float> weight = noise_vector(static_cast<size_t>(width), 4);
    const std::vector<float> bias = noise_vector(static_cast<size_t>(width), 5);
    for (const float* b : {static_cast<const float*>(nullptr), bias.data()}) {
      OwnedMatrix expected(11, width);
      OwnedMatrix got(11, width);
      ref_->run(NormOp{x.view, {weight.data(), 1e-5F, b, NormRule::Kind::kLayer}, expected.view});
      tested_->run(NormOp{x.view, {weight.data(), 1e-5F, b, NormRule::Kind::kLayer}, got.view});
      EXPECT_LT(relative_error(got.values, expected.values), 5e-6) << width;
    }
  }
}

// Heads with norms of their own, as if each were a matrix.
TEST_P(OpTest, NormsOfEachHead) {
  constexpr int kHeads = 3;
  constexpr int kWidth = 20;
  const OwnedMatrix x(5, kHeads * kWidth, 41);
  const std::vector<float> weight = noise_vector(size_t{kHeads} * kWidth, 42);
  const std::vector<float> bias = noise_vector(size_t{kHeads} * kWidth, 43);
  for (const NormRule::Kind kind : {NormRule::Kind::kRms, NormRule::Kind::kLayer}) {
    const float* all = kind == NormRule::Kind::kLayer ? bias.data() : nullptr;
    OwnedMatrix expected(5, kHeads * kWidth);
    OwnedMatrix got(5, kHeads * kWidth);
    for (int head = 0; head < kHeads; ++head) {
      const std::ptrdiff_t first = std::ptrdiff_t{head} * kWidth;
      const NormRule rule{weight.data() + first, 1e-5F, all == nullptr ? nullptr : all + first, kind};
      ref_->run(NormOp{x.view.columns(head * kWidth, kWidth), rule, expected.view.columns(head * kWidth, kWidth)});
    }
    const NormRule rule{weight.data(), 1e-5F, all, kind};
    tested_->run(NormOp{x.view, rule, got.view, kHeads, NormOp::Weights::kOfEachPart});
    EXPECT_LT(relative_error(got.values, expected.values), 5e-6);
  }
}

TEST_P(OpTest, ScalesCapsAndLimits) {
  for (const int width : kWidths) {
    for (const ScaleOp& like : {ScaleOp{{}, 1.7F}, ScaleOp{{}, 1.0F, 0.8F}, ScaleOp{{}, 2.0F, 0.0F, 0.6F}}) {
      OwnedMatrix expected(9, width, 44);
      OwnedMatrix got(9, width, 44);
      ref_->run(ScaleOp{expected.view, like.factor, like.softcap, like.limit});
      tested_->run(ScaleOp{got.view, like.factor, like.softcap, like.limit});
      EXPECT_LT(relative_error(got.values, expected.values), 2e-6) << width;
      const float most = like.limit > 0 ? like.limit : like.softcap > 0 ? like.softcap : 100.0F;
      for (const float value : got.values) EXPECT_LE(std::fabs(value), most);
    }
  }
}

TEST_P(OpTest, SigmoidGatesOfNumbersAndOfRows) {
  for (const int width : kWidths) {
    for (const int gates : {width, 1}) {
      OwnedMatrix gate(9, gates, 45);
      for (size_t i = 0; i < gate.values.size(); i += 3) gate.values[i] *= 60.0F;  // e^-x overflows and underflows
      OwnedMatrix expected(9, width, 46);
      OwnedMatrix got(9, width, 46);
      ref_->run(SigmoidGateOp{expected.view, gate.view});
      tested_->run(SigmoidGateOp{got.view, gate.view});
      EXPECT_LT(relative_error(got.values, expected.values), 2e-6) << width << " " << gates;
    }
  }
}

TEST_P(OpTest, SwiGluIncludingExtremeGates) {
  for (const int width : kWidths) {
    OwnedMatrix gate(9, width, 6);
    for (size_t i = 0; i < gate.values.size(); i += 5) gate.values[i] *= 60.0F;  // e^-x overflows and underflows
    const OwnedMatrix up(9, width, 7);
    OwnedMatrix expected(9, width);
    OwnedMatrix got(9, width);
    ref_->run(SwigluOp{gate.view, up.view, expected.view});
    tested_->run(SwigluOp{gate.view, up.view, got.view});
    EXPECT_LT(relative_error(got.values, expected.values), 2e-6) << width;
  }
}

// With an up beside it and without, and where nothing of it is left.
TEST_P(OpTest, Activations) {
  for (const int width : kWidths) {
    OwnedMatrix x(9, width, 47);
    for (size_t i = 0; i < x.values.size(); ++i) x.values[i] *= i % 5 == 0 ? 60.0F : 4.0F;
    const OwnedMatrix up(9, width, 48);
    for (const Activation activation : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh,
                                        Activation::kRelu, Activation::kReluSquared, Activation::kSwigluOai}) {
      for (const bool gated : {false, true}) {
        if (!gated && activation == Activation::kSwigluOai) continue;
        OwnedMatrix expected(9, width);
        OwnedMatrix got(9, width);
        const Matrix beside = gated ? up.view : Matrix{};
        ref_->run(ActivationOp{activation, x.view, beside, expected.view, 0.7F});
        tested_->run(ActivationOp{activation, x.view, beside, got.view, 0.7F});
        EXPECT_LT(relative_error(got.values, expected.values), 2e-6)
            << static_cast<int>(activation) << gated << width;
      }
    }
  }
}

TEST_P(OpTest, QueriesGrowWithTheirPlaces) {
  const std::vector<float> angles(size_t{20} * 4);
  const std::vector<float> growth = noise_vector(20, 49);
  std::vector<std::int32_t> places;
  for (int r = 0; r < 9; ++r) places.push_back(r * 7 % 20);
  for (const std::int32_t* at :
       {static_cast<const std::int32_t*>(nullptr), static_cast<const std::int32_t*>(places.data())}) {
    const RopeTable table{angles.data(), angles.data(), 4, at, growth.data()};
    OwnedMatrix expected(9, 50, 50);
    OwnedMatrix got(9, 50, 50);
    ref_->run(QueryScaleOp{expected.view, table});
    tested_->run(QueryScaleOp{got.view, table});
    EXPECT_EQ(got.values, expected.values);
  }
}

TEST_P(OpTest, Add) {
  for (const int width : kWidths) {
    OwnedMatrix a(9, width, 8);
    OwnedMatrix b = OwnedMatrix(9, width, 8);
    const OwnedMatrix y(9, width, 9);
    ref_->run(AddOp{a.view, y.view});
    tested_->run(AddOp{b.view, y.view});
    EXPECT_EQ(a.values, b.values) << width;
  }
}

// The same angles in another order, and each row told where its own are.
void expect_rope_by_places(Backend& backend, const RopeTable& table, int heads, const OwnedMatrix& expected) {
  const int rows = expected.view.rows;
  const auto pairs = static_cast<size_t>(table.pairs);
  std::vector<std::int32_t> places;
  std::vector<float> cos(static_cast<size_t>(2 * rows) * pairs);
  std::vector<float> sin(cos.size());
  for (int r = 0; r < rows; ++r) {
    places.push_back(r % 2 == 0 ? 2 * rows - 1 - r : r);
    const auto to = static_cast<std::ptrdiff_t>(static_cast<size_t>(places.back()) * pairs);
    std::copy_n(table.cos + table.first(r), pairs, cos.begin() + to);
    std::copy_n(table.sin + table.first(r), pairs, sin.begin() + to);
  }
  OwnedMatrix got(rows, expected.view.cols, 10);
  backend.run(RopeOp{got.view, heads, {cos.data(), sin.data(), table.pairs, places.data()}});
  EXPECT_EQ(got.values, expected.values) << "by places, " << 2 * table.pairs;
}

TEST_P(OpTest, RopeEqualsRefAndKeepsLengths) {
  for (const int head_dim : {2, 6, 20, 64, 128}) {
    const int heads = 3;
    const std::vector<Position> positions{0, 1, 2, 77, 4096, 10'000'019, 5, 6, 7, 8};
    std::vector<double> frequencies;
    for (int i = 0; i < head_dim / 2; ++i) frequencies.push_back(std::pow(10000.0, -2.0 * i / head_dim));
    std::vector<float> cos(positions.size() * frequencies.size());
    std::vector<float> sin(cos.size());
    rope_angles(positions, frequencies, cos.data(), sin.data());
    const RopeTable table{cos.data(), sin.data(), head_dim / 2};
    const int rows = static_cast<int>(positions.size());
    OwnedMatrix expected(rows, heads * head_dim, 10);
    OwnedMatrix got(rows, heads * head_dim, 10);
    const OwnedMatrix before(rows, heads * head_dim, 10);
    ref_->run(RopeOp{expected.view, heads, table});
    tested_->run(RopeOp{got.view, heads, table});
    EXPECT_EQ(got.values, expected.values) << head_dim;
    expect_rope_by_places(*tested_, table, heads, expected);
    for (int r = 0; r < rows; ++r) {
      double length_before = 0;
      double length_after = 0;
      for (int c = 0; c < heads * head_dim; ++c) {
        length_before += std::pow(before.view.row(r)[c], 2);
        length_after += std::pow(got.view.row(r)[c], 2);
      }
      EXPECT_NEAR(length_after / length_before, 1.0, 1e-6);
    }
  }
}

// Heads by the matrices of their KV heads; rows of others stay as they are, and every form gives the same bits.
TEST_P(OpTest, ProjectEqualsRefInTheRowsOfItsSequences) {
  struct Shape {
    int heads, kv_heads, inputs, outputs, stride;
  };
  for (const Shape& s : std::vector<Shape>{
           {4, 2, 16, 16, 16}, {3, 1, 20, 7, 32}, {2, 2, 5, 33, 48}, {8, 2, 64, 48, 64}, {6, 3, 64, 1, 64}}) {
    const std::int64_t head_stride = static_cast<std::int64_t>(s.inputs + 2) * s.stride;
    const OwnedMatrix matrices(s.kv_heads, static_cast<int>(head_stride), 3);
    const PerHeadLinear by{matrices.values.data(), s.kv_heads, s.inputs, s.outputs, s.stride, head_stride};
    const OwnedMatrix x(30, s.heads * s.inputs, 4);
    const std::vector<SequenceView> sequences{{nullptr, 0, 2, 1}, {nullptr, 0, 5, 20}};
    OwnedMatrix expected(30, s.heads * s.outputs, 5);
    OwnedMatrix got = expected;
    got.view.data = got.values.data();
    const std::vector<float> before = expected.values;
    ref_->run(ProjectOp{x.view, s.heads, by, sequences, expected.view});
    tested_->run(ProjectOp{x.view, s.heads, by, sequences, got.view});
    EXPECT_LT(relative_error(got.values, expected.values), 1e-6) << s.inputs << " x " << s.outputs;
    EXPECT_NE(got.values, before);
    for (const int row : {0, 1, 3, 4, 25, 29}) {
      for (int c = 0; c < s.heads * s.outputs; ++c) {
        const auto at = static_cast<size_t>(row * s.heads * s.outputs + c);
        EXPECT_EQ(got.values[at], before[at]) << row;
        EXPECT_EQ(expected.values[at], before[at]) << row;
      }
    }
    if (on_gpu(GetParam())) continue;
    for (const auto& other : all_backends(ActivationPrecision::kAsWeights)) {
      OwnedMatrix again(30, s.heads * s.outputs, 5);
      other->run(ProjectOp{x.view, s.heads, by, sequences, again.view});
      EXPECT_EQ(again.values, got.values) << other->description();
    }
  }
}

TEST(RopeAngles, AreExactFarOut) {
  const std::vector<Position> positions{10'000'019};
  const std::vector<double> frequencies{1.0};
  float cos = 0;
  float sin = 0;
  rope_angles(positions, frequencies, &cos, &sin);
  // float32 angles would be off by a whole radian here.
  EXPECT_FLOAT_EQ(cos, static_cast<float>(std::cos(10'000'019.0L)));
  EXPECT_FLOAT_EQ(sin, static_cast<float>(std::sin(10'000'019.0L)));
}

TEST_P(OpTest, EmbedReadsTheTokensRow) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const OwnedWeight table(37, 20, dtype, 11);
    const std::vector<TokenId> tokens{0, 36, 5, 5, 16, 15, 31, 32, 1, 2};
    OwnedMatrix expected(10, 20);
    OwnedMatrix got(10, 20);
    ref_->run(EmbedOp{ref_->load(std::vector{table.view}).get(), tokens, expected.view});
    tested_->run(EmbedOp{tested_->load(std::vector{table.view}).get(), tokens, got.view});
    EXPECT_EQ(got.values, expected.values);
  }
}

}  // namespace
}  // namespace kvasir::testing
