// Sequences that begin with the same blocks, which are read once for all of them: each has the bits that it has
// alone.
#include "backend/attention_scene.h"
#include "layout/codec.h"

namespace kvasir::testing {
namespace {

// Many sequences behind one prefix, ragged, with others among them: reading the prefix once for all changes no bit.
TEST_P(AttentionTest, SharedBlocksGiveEachSequenceItsOwnBits) {
  const std::vector<Span> spans{{700, 1}, {530, 1},  {512, 3}, {600, 1}, {511, 2},
                                {800, 1}, {513, 40}, {900, 2}, {20, 5}};
  const std::vector<size_t> sharers{1, 2, 4, 5, 6, 7};
  for (const KvFormat one : kAllKvFormats) {
    const KvPolicy format = both(one);
    std::vector<Case> cases{{6, 2, 64, 64, format, 16, {}}, {2, 2, 16, 24, format, 24, {}}};
    if (!has_scale(one)) {
      cases.push_back({8, 1, 20, 20, format, 32, {}});
      cases.push_back({4, 2, 16, 16, format, 16, {300, 4}});
    }
    for (const Case& c : cases) {
      Scene scene(*tested_, c, spans, 480, sharers);
      const std::vector<float> expected = Scene(*ref_, c, spans, 480, sharers).attend();
      EXPECT_LT(relative_error(scene.attend(), expected), tolerance(format));
      expect_each_as_alone(scene, spans, shape_name(c));
    }
  }
}

// So long a prefix of so many that a GPU reads it once: in several cohorts, each in several items. Of 20
// sequences two share less, and one nothing.
TEST_P(AttentionOnGpuTest, LongPrefixesGiveEachSequenceItsOwnBits) {
  std::vector<Span> spans(20, Span{9 * 256, 1});
  std::vector<size_t> sharers(spans.size() - 2);
  std::iota(sharers.begin(), sharers.end(), 1);
  for (size_t i = 0; i < spans.size(); ++i) spans[i].start += static_cast<Position>(i * i);
  spans[3] = {9 * 256, 3};
  spans[5] = {5 * 256 + 100, 2};
  spans[6] = {255, 1};
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kBF16}) {
    for (const Case& c : std::vector<Case>{{8, 2, 128, 128, both(format), 16, {}, 128},
                                           {112, 8, 128, 128, both(format), 16, {}, 128},
                                           {24, 8, 64, 64, both(format), 16, {}, 128}}) {
      Scene scene(*tested_, c, spans, 9 * 256, sharers);
      expect_each_as_alone(scene, spans, shape_name(c));
    }
  }
}

// On fewer SMs than the items of the prefix keep busy, so that some run the sequences' own chunks meanwhile:
// cuda_prefix_test.cpp holds that they do.
TEST_P(AttentionOnGpuTest, PrefixesOnFewSmsGiveEachSequenceItsOwnBits) {
  StagedBackend few(make_cuda_backend(0, ActivationPrecision::kAsWeights, 5));
  std::vector<Span> spans(12, Span{8 * 256, 1});
  std::vector<size_t> sharers(spans.size() - 1);
  std::iota(sharers.begin(), sharers.end(), 1);
  for (size_t i = 0; i < spans.size(); ++i) spans[i].start += static_cast<Position>(i * i * 9);
  for (const int dim : {64, 128}) {
    const Case c{24, 8, dim, dim, both(KvFormat::kBF16), 16, {}, 128};
    Scene scene(few, c, spans, 8 * 256, sharers);
    expect_each_as_alone(scene, spans, shape_name(c));
    EXPECT_EQ(scene.attend(), Scene(*tested_, c, spans, 8 * 256, sharers).attend()) << shape_name(c);
  }
}

// Prefixes of formats with scales, which a GPU dequantizes once for all sequences that share them: the fewer bits,
// the more sequences must.
TEST_P(AttentionOnGpuTest, LongPrefixesOfFormatsWithScalesGiveEachSequenceItsOwnBits) {
  struct Shape {
    KvFormat format;
    int dim;
    size_t sequences;
  };
  for (const auto& [format, dim, count] :
       {Shape{KvFormat::kE4M3, 128, 28}, Shape{KvFormat::kInt8, 64, 36}, Shape{KvFormat::kInt4, 128, 52}}) {
    std::vector<Span> spans(count, Span{9 * 256, 1});
    for (size_t i = 0; i < count; ++i) spans[i].start += static_cast<Position>(i * 7);
    spans[3] = {9 * 256, 3};
    std::vector<size_t> sharers(count - 2);
    std::iota(sharers.begin(), sharers.end(), 1);
    const Case c{24, 8, dim, dim, both(format), 16, {}, 128};
    Scene scene(*tested_, c, spans, 9 * 256, sharers);
    expect_each_as_alone(scene, spans, shape_name(c));
  }
}

// Prefixes that end with a chunk group, inside one, and one chunk after it, in contexts of more than two groups. A
// GPU has a partial for each chunk of some of them; with enough rows, as in the second shape, for each group.
TEST_P(AttentionOnGpuTest, PrefixesOfSeveralSpansGiveEachSequenceItsOwnBits) {
  for (const int chunks : {15, 16, 17}) {
    std::vector<Span> spans(16, Span{chunks * 256, 2});
    for (size_t i = 0; i < spans.size(); ++i) spans[i].start += static_cast<Position>(i * i * 4);
    std::vector<size_t> sharers(spans.size() - 1);
    std::iota(sharers.begin(), sharers.end(), 1);
    const KvFormat format = chunks == 16 ? KvFormat::kF16 : KvFormat::kBF16;
    for (const Case& c : std::vector<Case>{{8, 2, 128, 128, both(format), 16, {}, 128},
                                           {256, 2, 128, 128, both(format), 16, {}, 128},
                                           {512, 4, 64, 64, both(format), 16, {}, 128}}) {
      Scene scene(*tested_, c, spans, chunks * 256, sharers);
      expect_each_as_alone(scene, spans, shape_name(c) + ", " + std::to_string(chunks) + " chunks");
    }
  }
}

// The same in small, for a sanitizer: on four SMs, 15 chunks run group by group, and 17 chunk by chunk.
// cuda_prefix_test.cpp holds that they do.
TEST_P(AttentionOnGpuTest, ChunkGroupsOfPrefixesOnFewSmsGiveEachSequenceItsOwnBits) {
  StagedBackend few(make_cuda_backend(0, ActivationPrecision::kAsWeights, 4));
  for (const int chunks : {15, 17}) {
    std::vector<Span> spans(6, Span{chunks * 256, 1});
    for (size_t i = 0; i < spans.size(); ++i) spans[i].start += static_cast<Position>(i * i * 9);
    for (const int dim : {64, 128}) {
      const Case c{8, 8, dim, dim, both(KvFormat::kBF16), 16, {}, 128};
      Scene scene(few, c, spans, chunks * 256, {1, 2, 3, 4, 5});
      expect_as_alone(scene, spans, {1, 5}, shape_name(c) + ", " + std::to_string(chunks) + " chunks");
    }
  }
}

// And of dequantized blocks: as many sequences as it takes for that to be worth it.
TEST_P(AttentionOnGpuTest, DequantizedPrefixesOnFewSmsGiveEachSequenceItsOwnBits) {
  StagedBackend few(make_cuda_backend(0, ActivationPrecision::kAsWeights, 4));
  std::vector<Span> spans(28, Span{6 * 256, 1});
  for (size_t i = 0; i < spans.size(); ++i) spans[i].start += static_cast<Position>(i);
  std::vector<size_t> sharers(spans.size() - 1);
  std::iota(sharers.begin(), sharers.end(), size_t{1});
  const Case c{8, 8, 128, 128, both(KvFormat::kE4M3), 16, {}, 128};
  Scene scene(few, c, spans, 6 * 256, sharers);
  expect_as_alone(scene, spans, {0, 3, 27}, shape_name(c));
}

}  // namespace
}  // namespace kvasir::testing
