// Rows of a model's stream that a batch asks for beside its logits.
#include <gtest/gtest.h>

#include "backend/make_backend.h"
#include "model/draft_head_spec.h"
#include "model/random_weights.h"
#include "support/f32_weights.h"
#include "support/forward.h"

namespace kvasir::testing {
namespace {

// The target's rows that a batch asks for are its stream and what its head reads, whatever else is in the batch.
TEST(TapTest, RowsAreTheStream) {
  const auto backend = make_backend({"cpu", 1, "auto"});
  for (const char* golden : {"gqa", "glm4_moe", "gemma2", "qwen3_5"}) {
    const ModelSpec spec = in_f32(golden);
    const RandomWeights weights(spec, 3);
    const auto model = make_decoder(spec, weights, *backend, {64, {}});
    const auto hidden = static_cast<size_t>(spec.hidden);
    const auto run = [&](const std::vector<int>& behind, Batch::Output output) {
      std::vector<Buffer> taps;
      const std::vector<KvGroup> groups = kv_groups(spec, uniform_policy(KvFormat::kF32));
      std::int64_t page = 0;
      for (const KvGroup& group : groups) page = std::max(page, block_bytes_of(group, 16));
      KvStorage storage(*backend, {static_cast<std::int64_t>(groups.size()), page}, 16);
      std::vector<BlockId> tables;
      Batch batch;
      for (size_t g = 0; g < groups.size(); ++g) {
        storage.set_group(g, groups[g]);
        tables.push_back(static_cast<BlockId>(static_cast<std::int64_t>(g) * (page / block_bytes_of(groups[g], 16))));
      }
      for (int i = 0; i < 9; ++i) {
        batch.tokens.push_back(i);
        batch.positions.push_back(i);
        batch.logit_rows.push_back(i);
      }
      for (size_t g = 0; g < groups.size(); ++g) {
        SequenceView view{&tables[g], 0, 0, 9};
        view.block_count = groups[g].keeps_state() ? 1 : 0;
        batch.sequences.push_back({view});
      }
      batch.output = output;
      std::vector<std::vector<float>> out;
      for (const int one : behind) {
        taps.push_back(backend->allocate(sizeof(float) * 9 * hidden));
        batch.taps.push_back({one, {taps.back().as<float>(), 9, spec.hidden, spec.hidden}});
      }
      const Matrix rows = model->forward(batch, storage);
      out.emplace_back(rows.data, rows.data + static_cast<size_t>(rows.rows) * static_cast<size_t>(rows.cols));
      for (const Buffer& tap : taps) out.emplace_back(tap.as<float>(), tap.as<float>() + 9 * hidden);
      return out;
    };
    const auto plain = run({}, Batch::Output::kLogits);
    const auto tapped = run({0, 1, 2, DraftHeadSpec::kNormedRows}, Batch::Output::kLogits);
    EXPECT_EQ(tapped[0], plain[0]) << golden;  // asking changes no bit
    EXPECT_EQ(tapped[4], run({}, Batch::Output::kHidden)[0]) << golden;
    const Rows table = read(weights, "model.embed_tokens.weight", spec.vocab, spec.hidden);
    for (size_t i = 0; i < hidden; ++i) {
      EXPECT_NEAR(tapped[1][5 * hidden + i], table[5][i] * spec.embedding_scale, 1e-5) << golden;
    }
    EXPECT_NE(tapped[1], tapped[2]);
    EXPECT_NE(tapped[2], tapped[3]);
  }
}

}  // namespace
}  // namespace kvasir::testing
