// A warm-up leaves nothing behind.
#include "api/warm_up.h"

#include <gtest/gtest.h>

#include <array>

#include "api/loaded_model.h"

namespace kvasir::testing {
namespace {

TEST(WarmUp, LeavesNothingBehind) {
  for (const int block_tokens : {16, 4, 32}) {
    LlmOptions options;
    options.model = KVASIR_SOURCE_DIR "/models/tales-draft";
    options.threads = 1;
    options.block_tokens = block_tokens;
    LoadedModel model(options);
    int rows = 0;
    model.engine.observe([&](RequestId, Position, std::span<const float>) { ++rows; });
    warm_up(model.engine, std::array{1, 4});
    EXPECT_GE(rows, 5) << block_tokens;
    EXPECT_TRUE(model.engine.idle());
    const KvCache& cache = model.engine.cache();
    EXPECT_EQ(cache.stats().queried_tokens, 0);
    for (size_t group = 0; group < cache.groups(); ++group) {
      EXPECT_EQ(cache.pool(group).held(), 0);
      EXPECT_EQ(cache.pool(group).free_blocks(), cache.pool(group).available()) << "some are cached";
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
