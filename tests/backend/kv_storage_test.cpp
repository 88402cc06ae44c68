#include "backend/kv_storage.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/ref/ref_backend.h"

namespace kvasir::testing {
namespace {

TEST(KvStorage, MapsTheModelsLayersToGroups) {
  const auto backend = make_ref_backend();
  const KvGroup local{{0, 2}, {1, 8, 8}, KvFormat::kF16, KvFormat::kF16, {32, 0}};
  const KvGroup global{{1, 3, 4}, {1, 8, 8}, KvFormat::kF32, KvFormat::kF32, {}};
  const std::vector<KvStorage::GroupSpec> specs{{local, 3}, {global, 5}};
  const KvStorage storage(*backend, specs, 16);
  EXPECT_EQ(storage.group_of(0), 0U);
  EXPECT_EQ(storage.group_of(1), 1U);
  EXPECT_EQ(storage.view(2).layer, 1);
  EXPECT_EQ(storage.view(4).layer, 2);
  EXPECT_EQ(storage.view(2).retention.window, 32);
  EXPECT_TRUE(storage.view(3).retention.full());
  EXPECT_EQ(storage.bytes(), static_cast<size_t>(3 * 2 * 2 * 8 * 16 * 2 + 5 * 3 * 2 * 8 * 16 * 4));
}

TEST(KvStorage, CopiesWholeBlocksAndNothingElse) {
  const auto backend = make_ref_backend();
  const KvGroup group{{0, 1}, {2, 8, 8}, KvFormat::kF32, KvFormat::kF32, {}};
  const std::vector<KvStorage::GroupSpec> specs{{group, 4}};
  KvStorage storage(*backend, specs, 16);
  const auto bytes = static_cast<size_t>(storage.layout(0).block_bytes());
  std::byte* arena = storage.view(0).arena;
  for (size_t i = 0; i < 4 * bytes; ++i) arena[i] = static_cast<std::byte>(i / bytes + 1);
  storage.copy_block(0, 1, 3);
  for (size_t i = 0; i < 4 * bytes; ++i) {
    const size_t block = i / bytes;
    ASSERT_EQ(static_cast<size_t>(arena[i]), block == 3 ? 2 : block + 1);
  }
}

}  // namespace
}  // namespace kvasir::testing
