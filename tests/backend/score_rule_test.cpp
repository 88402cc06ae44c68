// Rules of scores: ref against the softmax's definition, every other backend against ref, and each row's bits against
// its own in other company.
#include <array>

#include "backend/score_scene.h"

namespace kvasir::testing {
namespace {

using Mask = ScoreRule::Mask;

const std::vector<Retention> kRetentions{{}, {7, 0}, {9, 3}, {0, 0, 6}, {4, 0, 11}};

// What a rule and a retention show, written down again.
std::vector<ScoreScene::Seen> seen_by(const RuleCase& c, Position query, Position keys) {
  std::vector<ScoreScene::Seen> out;
  for (Position key = 0; key < keys; ++key) {
    bool sees = true;
    if (c.fields.mask == Mask::kCausal) {
      const Retention& r = c.retention;
      const bool in_window = r.window == 0 || key > query - r.window;
      const bool in_chunk = r.chunk == 0 || key / r.chunk == query / r.chunk;
      sees = key <= query && ((in_window && in_chunk) || key < r.sinks);
    }
    if (sees) out.push_back({static_cast<int>(key), key - query});
  }
  return out;
}

TEST(ScoreRule, RefIsTheSoftmaxByItsDefinition) {
  constexpr int kStart = 5;
  constexpr int kRows = 15;
  constexpr Position kKeys = 23;  // of an encoder's text, longer than what its rows reach
  const auto ref = make_ref_backend();
  for (const RuleFields& fields : all_rules({Mask::kCausal, Mask::kAll})) {
    for (const Retention& retention : fields.mask == Mask::kAll ? std::vector<Retention>{{}} : kRetentions) {
      for (const int v_in_k : {-1, 3}) {
        const RuleCase c{6, {2, 20, 12, {}, {}, v_in_k}, KvFormat::kF32, 5, retention, fields};
        ScoreScene scene(*ref, c, 1, kKeys);
        scene.write_first(0, kKeys);
        SequenceView sequence = scene.sequence(0, kStart, kRows);
        sequence.keys = kKeys;
        const ScoreScene::Result got = scene.attend(sequence, counted(kStart, kRows));
        double worst = 0;
        for (int row = 0; row < kRows; ++row) {
          for (int head = 0; head < c.heads; ++head) {
            const auto expected = scene.dense(kStart + row, head, seen_by(c, kStart + row, kKeys));
            for (int d = 0; d < c.shape.v_dim; ++d) {
              const float number = got.out[static_cast<size_t>((row * c.heads + head) * c.shape.v_dim + d)];
              worst = std::max(worst, std::abs(number - expected[static_cast<size_t>(d)]));
            }
          }
        }
        EXPECT_LT(worst, 1e-6) << text_of(c);
      }
    }
  }
}

class RuleTest : public OpTest {
 protected:
  struct Rows {
    Position start;
    int rows;
    Position keys;
  };
  // The same in both, and how far apart.
  double error(const RuleCase& c, const Rows& rows) {
    std::vector<float> outs[2];
    Backend* backends[]{ref_.get(), tested_.get()};
    for (size_t i = 0; i < 2; ++i) outs[i] = attend(*backends[i], c, rows).out;
    return relative_error(outs[1], outs[0]);
  }
  static ScoreScene::Result attend(Backend& backend, const RuleCase& c, const Rows& rows) {
    ScoreScene scene(backend, c, 1, rows.keys);
    scene.write_first(0, rows.keys);
    SequenceView sequence = scene.sequence(0, rows.start, rows.rows);
    sequence.keys = rows.keys;
    return scene.attend(sequence, counted(0, rows.rows));
  }
  // On the cpu weights of packed values have 14 bits: of some 270 keys each is off by half a unit of the largest at
  // most. A GPU has float32 for every rule, and tensor cores where there is none.
  static double tolerance(const RuleCase& c) {
    if (!on_gpu(GetParam())) return is_packed(c.format) ? 5e-4 : 5e-6;
    const RuleFields& f = c.fields;
    const bool plain = f.softcap == 0 && !f.sinks && f.bias == RuleFields::Bias::kNone && f.mask == Mask::kCausal &&
                       c.retention.chunk == 0 && c.shape.has_v() && c.shape.k_dim <= 256;
    return plain ? attention_tolerance(GetParam(), uniform_policy(c.format)) : 1e-5;
  }
};
INSTANTIATE_TEST_SUITE_P(Forms, RuleTest, ::testing::ValuesIn(all_forms()), form_name);

TEST_P(RuleTest, EqualsRefOverRulesAndFormats) {
  for (const KvFormat format : kAllKvFormats) {
    for (const RuleFields& fields : all_rules({Mask::kCausal, Mask::kAll})) {
      const RuleCase c{4, {2, 20, 12}, format, 16, {}, fields};
      EXPECT_LT(error(c, {250, 9, 270}), tolerance(c)) << text_of(c);
    }
  }
}

TEST_P(RuleTest, EqualsRefOverRetentionsAndBlocks) {
  for (const Retention& retention :
       std::vector<Retention>{{}, {70, 5}, {300, 0}, {0, 0, 64}, {0, 0, 100}, {40, 0, 96}}) {
    for (const int block : {5, 16, 24}) {
      RuleCase c{4, {2, 16, 16}, KvFormat::kF16, block, retention, {2.0F, true, RuleFields::Bias::kTable, {}}};
      for (const Position start : {0, 90, 511}) {
        EXPECT_LT(error(c, {start, 40, start + 40}), tolerance(c)) << text_of(c) << " at " << start;
      }
    }
  }
}

// A key of nobody's: zeros, and what a sink leaves of them.
TEST_P(RuleTest, WhoSeesNothingHasTheStateOfItsSink) {
  for (Backend* backend : {ref_.get(), tested_.get()}) {
    for (const bool sinks : {false, true}) {
      const RuleCase c{4, {2, 16, 16}, KvFormat::kF16, 16, {}, {0, sinks, {}, Mask::kAll}};
      const ScoreScene::Result got = attend(*backend, c, {0, 3, 0});
      EXPECT_EQ(got.out, std::vector<float>(got.out.size(), 0.0F));
      for (const SoftmaxState& state : got.states) {
        EXPECT_EQ(state.empty(), !sinks);
        EXPECT_TRUE(!sinks || state.d == 1.0F);
      }
    }
  }
}

TEST_P(RuleTest, ManyQueryHeadsOnOneAndWideHeadsEqualRef) {
  for (const KvFormat format :
       {KvFormat::kF16, KvFormat::kInt8, KvFormat::kInt4, KvFormat::kE4M3, KvFormat::kTop50}) {
    for (const RuleCase& c :
         {RuleCase{71, {1, 16, 16}, format, 16, {}, {}},
          RuleCase{66, {2, 8, 8}, format, 16, {30, 2}, {2.0F, true, RuleFields::Bias::kSlopes, {}}},
          RuleCase{8, {2, 80, 80}, format, 16, {}, {3.0F, true, {}, {}}},
          RuleCase{4, {2, 512, 512}, format, 16, {}, {}},
          RuleCase{128, {1, 576, 512, {}, {}, 0}, format, 16, {}, {}}}) {
      EXPECT_LT(error(c, {c.heads == 128 ? 20 : 250, 3, c.heads == 128 ? 23 : 260}), tolerance(c)) << text_of(c);
    }
  }
}

// A prompt over latents as DeepSeek's, several chunks of it, and one row far behind.
TEST_P(RuleTest, ManyRowsOfLatentsEqualRef) {
  for (const KvFormat format : {KvFormat::kBF16, KvFormat::kInt8}) {
    const RuleCase c{3, {1, 576, 512, {}, {}, 64}, format, 16, {}, {}};
    EXPECT_LT(error(c, {0, 300, 300}), tolerance(c)) << text_of(c);
    EXPECT_LT(error(c, {800, 1, 801}), tolerance(c)) << text_of(c);
  }
}

// Each head of many as if it were alone with its KV head.
TEST_P(RuleTest, AHeadsBitsDoNotDependOnHowManyShareItsKeys) {
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kInt4}) {
    const RuleCase c{71, {1, 16, 16}, format, 16, {}, {}};
    const ScoreScene::Result all = attend(*tested_, c, {250, 2, 252});
    ScoreScene scene(*tested_, {1, {1, 16, 16}, format, 16, {}, {}}, 1, 252);
    scene.write_first(0, 252);
    ScoreScene wide(*tested_, c, 1, 252);
    const OwnedMatrix q = wide.queries(counted(0, 2));
    for (int head = 0; head < c.heads; ++head) {
      OwnedMatrix own(2, 16);
      OwnedMatrix out(2, 16);
      for (int row = 0; row < 2; ++row) std::copy_n(q.view.row(row) + head * 16, 16, own.view.row(row));
      const std::vector<SequenceView> one{scene.sequence(0, 250, 2)};
      tested_->run(AttentionOp{{own.view, scene.view(), one, 1, {0.25F}}, out.view});
      for (int row = 0; row < 2; ++row) {
        const auto at = all.out.begin() + (row * c.heads + head) * 16;
        EXPECT_TRUE(std::equal(at, at + 16, out.view.row(row))) << format_name(format) << " head " << head;
      }
    }
  }
}

// V as a part of K: what attention gives, and the bytes that are left out.
TEST_P(RuleTest, ValuesInKeysEqualRefOverFormats) {
  for (const KvFormat format : kAllKvFormats) {
    for (const int v_in_k : {0, 8}) {
      for (const int block : {16, 5}) {
        const RuleCase c{6, {2, 24, 16, {}, {}, v_in_k}, format, block, {70, 5}, {3.0F, true, {}, {}}};
        EXPECT_LT(error(c, {250, 9, 259}), tolerance(c)) << text_of(c);
      }
    }
  }
}

// Queries and keys are rotated in part, and keys written, values with them.
TEST_P(RuleTest, KeysThatHoldValuesAreRotatedAndWritten) {
  constexpr int kPairs = 4;
  const std::vector<float> cos = noise_vector(size_t{40} * kPairs, 21);
  const std::vector<float> sin = noise_vector(size_t{40} * kPairs, 22);
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kBF16, KvFormat::kInt8}) {
    const RuleCase c{6, {2, 24, 16, {}, {}, 8}, format, 16, {}, {}};
    std::vector<float> outs[2];
    Backend* backends[]{ref_.get(), tested_.get()};
    for (size_t i = 0; i < 2; ++i) {
      ScoreScene scene(*backends[i], c, 1, 40);
      OwnedMatrix q = scene.queries(counted(0, 40));
      OwnedMatrix k(40, 48, 23);
      const std::vector<SequenceView> all{scene.sequence(0, 0, 40)};
      const QkvRows rows{q.view, k.view, {}, c.heads, c.shape.heads, {cos.data(), sin.data(), kPairs}};
      backends[i]->run(RopeKvWriteOp{rows, scene.view(), all});
      OwnedMatrix out(40, c.heads * c.shape.v_dim);
      backends[i]->run(AttentionOp{{q.view, scene.view(), all, c.heads, scene.rule()}, out.view});
      outs[i] = out.values;
    }
    EXPECT_LT(relative_error(outs[1], outs[0]), tolerance(c)) << format_name(format);
  }
}

// The same cache with values of their own that are K's numbers: formats whose rows are not changed by their company.
TEST_P(RuleTest, ValuesInKeysAreThoseOfKeys) {
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16}) {
    // Values of one tile of 16, and of several, the last not full.
    for (const auto& [k_dim, v_dim, first] : {std::array{24, 16, 8}, std::array{100, 84, 16}}) {
      const RuleFields fields{
          2.0F, false, {}, {}};  // without a rule a GPU reads values of their own by other kernels
      const RuleCase shared{4, {1, k_dim, v_dim, {}, {}, first}, format, 16, {}, fields};
      const RuleCase apart{4, {1, k_dim, v_dim}, format, 16, {}, fields};
      const ScoreScene::Result got = attend(*tested_, shared, {250, 9, 259});
      ScoreScene scene(*tested_, apart, 1, 259);
      OwnedMatrix k(259, k_dim);
      OwnedMatrix v(259, v_dim);
      for (int row = 0; row < 259; ++row) {
        for (int d = 0; d < k_dim; ++d) k.view.row(row)[d] = scene.key(row, d);
        std::copy_n(k.view.row(row) + first, v_dim, v.view.row(row));
      }
      const std::vector<SequenceView> all{scene.sequence(0, 0, 259)};
      tested_->run(KvWriteOp{k.view, v.view, scene.view(), all});
      EXPECT_EQ(scene.attend(scene.sequence(0, 250, 9), counted(0, 9)).out, got.out)
          << format_name(format) << " " << v_dim;
    }
  }
}

TEST_P(RuleTest, ARowsBitsAreTheSameInPiecesAndInOtherBlocks) {
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kInt8, KvFormat::kInt2, KvFormat::kTop50}) {
    for (const RuleFields& fields : all_rules({Mask::kCausal, Mask::kAll})) {
      for (const int v_in_k : {-1, 0}) {
        RuleCase c{6, {2, 24, 16, {}, {}, v_in_k}, format, 16, {}, fields};
        const std::vector<float> whole = attend(*tested_, c, {230, 50, 290}).out;
        ScoreScene scene(*tested_, c, 1, 290);
        scene.write_first(0, 290);
        const auto width = static_cast<std::ptrdiff_t>(whole.size() / 50);
        for (const int row : {0, 25, 26, 49}) {
          SequenceView one = scene.sequence(0, 230 + row, 1);
          one.keys = 290;
          const auto at = whole.begin() + row * width;
          EXPECT_EQ(scene.attend(one, {row}).out, std::vector(at, at + width)) << text_of(c);
        }
        c.block_tokens = 24;
        EXPECT_EQ(attend(*tested_, c, {230, 50, 290}).out, whole) << text_of(c);
      }
    }
  }
}

// A sink counts once, in one of the parts that merge: whichever.
TEST_P(RuleTest, PartsThatMergeHaveOneSink) {
  const Retention recent{20, 3};
  for (Backend* backend : {ref_.get(), tested_.get()}) {
    for (const float softcap : {0.0F, 2.0F}) {
      const RuleCase c{6, {2, 16, 16}, KvFormat::kF16, 16, {}, {softcap, true, RuleFields::Bias::kTable, {}}};
      ScoreScene scene(*backend, c, 1, 300);
      scene.write_first(0, 300);
      const SequenceView rows = scene.sequence(0, 0, 300);
      const std::vector<int> which = counted(0, 300);
      const std::vector<float> whole = scene.attend(rows, which).out;
      for (const bool in_first : {true, false}) {
        ScoreRule rules[2]{scene.rule(), scene.rule()};
        rules[in_first ? 1 : 0].sink_logits = nullptr;
        KvView view = scene.view();
        view.retention = recent;
        ScoreScene::Result fine = scene.attend(rows, which, rules[0], view);
        view.retention = {};
        view.recent_override = recent;
        ScoreScene::Result rest = scene.attend(rows, which, rules[1], view);
        const Matrix into{fine.out.data(), 300, 96, 96};
        const Matrix from{rest.out.data(), 300, 96, 96};
        const std::vector<SequenceView> one{rows};
        backend->run(MergeAttentionOp{{into, fine.states.data(), 6}, {from, rest.states.data(), 6}, one});
        EXPECT_LT(relative_error(fine.out, whole), 5e-6) << softcap << in_first;
      }
    }
  }
}

TEST_P(RuleTest, WatchesSharesThatSinksLeave) {
  for (const int heads : {6, 70}) {
    for (const bool sinks : {false, true}) {
      const RuleCase c{heads, {2, 16, 16}, KvFormat::kF16, 16, {}, {2.0F, sinks, {}, {}}};
      std::vector<float> noted[2];
      Backend* backends[]{ref_.get(), tested_.get()};
      for (size_t i = 0; i < 2; ++i) {
        ScoreScene scene(*backends[i], c, 1, 300);
        scene.write_first(0, 300);
        const OwnedMatrix q = scene.queries(counted(0, 40));
        const std::vector<SequenceView> one{scene.sequence(0, 260, 40)};
        noted[i].resize(600);
        AttentionWatch watch;
        watch.first = 3;
        watch.stride = 300;
        watch.scores = noted[i].data();
        backends[i]->run(WatchAttentionOp{{q.view, scene.view(), one, heads, scene.rule()}, watch});
      }
      EXPECT_LT(relative_error(noted[1], noted[0]), 1e-5) << heads << sinks;
      double sum = 0;
      for (const float share : noted[1]) sum += share;
      EXPECT_TRUE(sinks ? sum < 36.9 * heads : std::abs(sum - 37.0 * heads) < 1e-2) << sum;
    }
  }
}

// Whatever the instruction set and the number of threads.
TEST(ScoreRule, EveryFormOfTheCpuHasTheSameBits) {
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kInt4}) {
    for (const RuleFields& fields : all_rules({Mask::kCausal, Mask::kAll})) {
      const RuleCase c{40, {1, 24, 16, {}, {}, format == KvFormat::kF32 ? -1 : 0}, format, 16, {}, fields};
      std::vector<float> first;
      for (const auto& backend : all_backends(ActivationPrecision::kAsWeights)) {
        ScoreScene scene(*backend, c, 1, 290);
        scene.write_first(0, 290);
        SequenceView rows = scene.sequence(0, 270, 4);
        rows.keys = 290;
        const std::vector<float> out = scene.attend(rows, counted(0, 4)).out;
        if (first.empty()) first = out;
        EXPECT_EQ(out, first) << backend->description() << " " << text_of(c);
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
