// A row's attention has the same bits in every kernel, in every company and in any number of pieces.
#include "backend/attention_scene.h"

namespace kvasir::testing {
namespace {

TEST_P(AttentionTest, ARowsBitsDoNotDependOnWhatIsBesideIt) {
  for (const Retention& retention : std::vector<Retention>{{}, {40, 4}}) {
    const Case c{6, 2, 64, 64, both(KvFormat::kF16), 16, retention};
    const int width = c.heads * c.v_dim;
    const std::vector<float> together = Scene(*tested_, c, {{0, 300}}).attend();
    // The same queries, one chunk after the other: row r of a chunk's q is row r of the noise, so compare row 0 of
    // each chunk against a scene in which that row is alone.
    const std::vector<float> alone = Scene(*tested_, c, {{0, 1}}).attend();
    EXPECT_EQ(std::vector(together.begin(), together.begin() + width), alone);
    const std::vector<float> tile = Scene(*tested_, c, {{290, 9}}).attend();
    const std::vector<float> first = Scene(*tested_, c, {{290, 1}}).attend();
    EXPECT_EQ(std::vector(tile.begin(), tile.begin() + width), first);
  }
}

// Of a backend's formats one at a time: a sanitizer takes minutes for each.
struct FormOfFormat {
  Form form;
  KvFormat format;
};
std::vector<FormOfFormat> forms_of_formats() {
  std::vector<FormOfFormat> out;
  for (const Form& form : all_forms()) {
    for (const KvFormat format : formats_with_kernels(form)) out.push_back({form, format});
  }
  return out;
}
class AttentionFormatTest : public ::testing::TestWithParam<FormOfFormat> {
 protected:
  std::unique_ptr<Backend> tested_ = make_form(GetParam().form);
};
INSTANTIATE_TEST_SUITE_P(Forms, AttentionFormatTest, ::testing::ValuesIn(forms_of_formats()), [](const auto& test) {
  return form_name({test.param.form, 0}) + "_" + std::string(format_name(test.param.format));
});

// Backends have kernels for prompts, for single rows, and for blocks and heads of usual sizes: all give the same
// bits.
TEST_P(AttentionFormatTest, EveryKernelHasTheSameBits) {
  const std::vector<Span> spans{{0, 150}, {700, 1}, {40, 9}, {250, 70}, {511, 3}, {600, 40}};
  const Form& form = GetParam().form;
  const bool scalar = !on_gpu(form) && form.isa == Isa::kScalar;  // the others' source, many times slower
  for (const int dim : scalar ? std::vector{64} : std::vector{64, 128}) {
    for (const Retention& retention : std::vector<Retention>{{}, {70, 5}}) {
      Case c{8, 2, dim, dim, both(GetParam().format), 16, retention, 128};
      Scene usual(*tested_, c, spans);
      const std::vector<float> bits = usual.attend();
      for (const int rows : scalar ? std::vector{5} : std::vector{1, 5, 64}) {
        EXPECT_EQ(usual.attend_in_pieces(rows), bits) << dim << " by " << rows;
      }
      c.page_rest = 64;
      EXPECT_EQ(Scene(*tested_, c, spans).attend(), bits) << dim;
      c.block_tokens = 24;
      Scene unusual(*tested_, c, spans);
      EXPECT_EQ(unusual.attend(), bits) << dim;
      EXPECT_EQ(unusual.attend_in_pieces(5), bits) << dim << " by 5";
    }
  }
}

// Where K and V are not in one format, and where numbers are left out: prompts and single rows.
TEST_P(AttentionTest, EveryKernelHasTheSameBitsOverMixedFormats) {
  const std::vector<Span> spans{{0, 150}, {700, 1}, {250, 70}, {600, 40}};
  std::vector<KvPolicy> mixes{both(KvFormat::kTop50), both(KvFormat::kTop25)};
  for (const auto& [k, v] : {std::pair{KvFormat::kInt8, KvFormat::kInt4},
                             {KvFormat::kE4M3, KvFormat::kInt8},
                             {KvFormat::kInt4, KvFormat::kE5M2},
                             {KvFormat::kF16, KvFormat::kInt4},
                             {KvFormat::kInt8, KvFormat::kBF16},
                             {KvFormat::kInt8, KvFormat::kF16},
                             {KvFormat::kBF16, KvFormat::kInt8},
                             {KvFormat::kF16, KvFormat::kBF16}}) {
    KvPolicy mix = both(k);
    mix.v_format = v;
    mixes.push_back(mix);
  }
  for (const KvPolicy& mix : mixes) {
    for (const Retention& retention : std::vector<Retention>{{}, {70, 5}}) {
      const Case c{8, 2, 64, 64, mix, 16, retention, 128};
      Scene scene(*tested_, c, spans);
      const std::vector<float> bits = scene.attend();
      const std::string what = shape_name(c) + ", V of " + std::string(format_name(mix.v_format));
      EXPECT_EQ(scene.attend_in_pieces(5), bits) << what;
      if (!on_gpu(GetParam())) continue;  // elsewhere EqualsRefOverFormatsGroupsAndHeads has seen them
      EXPECT_LT(relative_error(bits, Scene(*ref_, c, spans).attend()), tolerance(mix)) << what;
    }
  }
}

// As many heads to a KV head as no number of rows is a multiple of, more than a tile has rows, and one.
TEST_P(AttentionTest, EveryKernelHasTheSameBitsWithAnyNumberOfHeads) {
  const std::vector<Span> spans{{0, 100}, {250, 130}};
  for (const int heads : {1, 3, 12}) {
    Case c{2 * heads, 2, 64, 64, both(KvFormat::kBF16), 16, {}, 128};
    const std::vector<float> bits = Scene(*tested_, c, spans).attend();
    EXPECT_EQ(Scene(*tested_, c, spans).attend_in_pieces(7), bits) << heads;
    c.block_tokens = 24;
    EXPECT_EQ(Scene(*tested_, c, spans).attend(), bits) << heads;
  }
}

// A prompt after so long a context, with so many heads, that a GPU dequantizes it in several steps.
TEST_P(AttentionOnGpuTest, APromptBehindMoreThanIsWidenedAtOnceHasTheBitsOfItsRows) {
  const Case c{40, 40, 128, 128, both(KvFormat::kInt2), 16, {}, 128};
  Scene scene(*tested_, c, {{13500, 70}});
  EXPECT_EQ(scene.attend_in_pieces(7), scene.attend());
}

// The same in contexts of more than two chunk groups: prompts that cross from one into the next, rows in the third,
// and windows and sinks with groups between them that no row sees.
TEST_P(AttentionOnGpuTest, EveryKernelHasTheSameBitsInLongContexts) {
  const std::vector<Span> spans{{4200, 1}, {2030, 60}, {4090, 150}, {2047, 2}, {4351, 3}};
  for (const KvFormat format : formats_with_kernels(GetParam())) {
    for (const int dim : {64, 128}) {
      for (const Retention& retention : std::vector<Retention>{{}, {70, 5}, {1900, 600}}) {
        Case c{8, 2, dim, dim, both(format), 16, retention, 128};
        Scene usual(*tested_, c, spans);
        const std::vector<float> bits = usual.attend();
        const std::string what = shape_name(c) + ", window of " + std::to_string(retention.window);
        if (dim == 64 && (format == KvFormat::kF16 || format == KvFormat::kBF16)) {
          EXPECT_LT(relative_error(bits, Scene(*ref_, c, spans).attend()), tolerance(c.formats)) << what;
        }
        for (const int rows : {1, 64}) EXPECT_EQ(usual.attend_in_pieces(rows), bits) << what << " by " << rows;
        c.block_tokens = 24;
        EXPECT_EQ(Scene(*tested_, c, spans).attend(), bits) << what;
      }
    }
  }
}

// So many sequences that a GPU's CTAs take whole chunk groups, one or two each, while a sequence alone has its chunks
// on all of them: one to eight chunks, whole groups, and rows in the third.
TEST_P(AttentionOnGpuTest, ManySequencesHaveTheBitsOfEachAlone) {
  std::vector<Span> spans;
  for (int i = 0; i < 24; ++i) spans.push_back({i * 97, 1});
  spans[3] = {2047, 1};
  spans[8] = {2048, 2};
  spans[13] = {4200, 3};
  for (const KvFormat format : formats_with_kernels(GetParam())) {
    for (const int dim : {64, 128}) {
      const int kv_heads = dim == 64 ? 4 : 8;
      const Case c{3 * kv_heads, kv_heads, dim, dim, both(format), 16, {}, 128};
      Scene scene(*tested_, c, spans);
      expect_each_as_alone(scene, spans, shape_name(c));
    }
  }
}

// Single tokens of sequences that begin at `first`, `first` + `step`, …, in another order, over the same blocks in
// other orders; three tokens, in two tiles, of those in `with_three`.
struct ManyRows {
  size_t count;
  int kv_heads, dim;
  Position first, step;
  std::vector<size_t> with_three;
};

void expect_rows_as_alone(Backend& backend, const ManyRows& rows, KvFormat format) {
  std::vector<Span> spans(rows.count);
  for (size_t i = 0; i < rows.count; ++i) {
    spans[i] = {rows.first + static_cast<Position>(i * 16 % rows.count) * rows.step, 1};
  }
  for (const size_t i : rows.with_three) spans[i].rows = 3;
  std::ranges::swap(spans[0], *std::ranges::max_element(spans, {}, &Span::start));
  const Case c{3 * rows.kv_heads, rows.kv_heads, rows.dim, rows.dim, both(format), 16, {}, 128};
  Scene scene(backend, c, {spans[0]});
  for (size_t i = 1; i < rows.count; ++i) scene.add_rotated(spans[i], i * 5);
  expect_each_as_alone(scene, spans, shape_name(c));
}

// So many that a GPU gives each of 132 SMs whole rows, of one to three chunk groups: cuda_partition_test.cpp
// holds that it does.
TEST_P(AttentionOnGpuTest, ManyWholeRowsHaveTheBitsOfEachAlone) {
  for (const KvFormat format : formats_with_kernels(GetParam())) {
    expect_rows_as_alone(*tested_, {33, 8, 128, 3099, 41, {}}, format);
    expect_rows_as_alone(*tested_, {31, 16, 64, 1029, 37, {4, 20}}, format);
  }
}

// Twenty rows for three SMs, six each and two that are popped: what a sanitizer has the time for.
// cuda_partition_test.cpp holds that they are whole.
TEST_P(AttentionOnGpuTest, WholeRowsOnFewSmsHaveTheBitsOfEachAlone) {
  StagedBackend few(make_cuda_backend(0, ActivationPrecision::kAsWeights, 3));
  for (const KvFormat format : formats_with_kernels(GetParam())) {
    expect_rows_as_alone(few, {5, 4, 128, 4139, 41, {}}, format);
    expect_rows_as_alone(few, {9, 2, 64, 4139, 37, {2}}, format);
  }
}

// Ten rows of two chunk groups, which CTAs take whole: rows would keep some of the three SMs longer than the
// others.
TEST_P(AttentionOnGpuTest, ChunkGroupsOnFewSmsHaveTheBitsOfEachAlone) {
  StagedBackend few(make_cuda_backend(0, ActivationPrecision::kAsWeights, 3));
  for (const KvFormat format : formats_with_kernels(GetParam())) {
    for (const int dim : {64, 128}) expect_rows_as_alone(few, {5, 2, dim, 2100, 37, {}}, format);
  }
}

// So few that clusters of two CTAs share each: with one or two chunk groups for each CTA, and a last group that is
// not whole.
TEST_P(AttentionOnGpuTest, RowsOfClustersHaveTheBitsOfEachAlone) {
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kBF16}) {
    expect_rows_as_alone(*tested_, {7, 8, 128, 7940, 30, {2}}, format);
    expect_rows_as_alone(*tested_, {4, 16, 64, 3850, 40, {}}, format);
    expect_rows_as_alone(*tested_, {8, 8, 128, 15900, 60, {}}, format);
  }
}

}  // namespace
}  // namespace kvasir::testing
