#include "backend/kv_storage.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/backends.h"

namespace kvasir::testing {
namespace {

TEST(KvStorage, MapsTheModelsLayersToGroups) {
  const auto backend = make_ref_backend();
  const KvGroup local{{0, 2}, {1, 8, 8}, KvFormat::kF16, KvFormat::kF16, {32, 0}};
  const KvGroup global{{1, 3, 4}, {1, 8, 8}, KvFormat::kF32, KvFormat::kF32, {}};
  KvStorage storage(*backend, {5, 4096}, 16);
  storage.set_group(0, local);
  storage.set_group(1, global);
  for (int layer = 0; layer < 5; ++layer) {
    EXPECT_EQ(storage.caches(0, layer), layer == 0 || layer == 2) << layer;
    EXPECT_EQ(storage.caches(1, layer), layer != 0 && layer != 2) << layer;
  }
  EXPECT_FALSE(storage.caches(0, 17));
  EXPECT_EQ(storage.view(0, 2).layer, 1);
  EXPECT_EQ(storage.view(1, 4).layer, 2);
  EXPECT_EQ(storage.view(0, 2).retention.window, 32);
  EXPECT_TRUE(storage.view(1, 3).retention.full());
  EXPECT_EQ(storage.bytes(), size_t{5} * 4096);
}

TEST(KvStorage, CopiesWholeBlocksAndNothingElse) {
  const auto backend = make_ref_backend();
  const KvGroup group{{0, 1}, {2, 8, 8}, KvFormat::kF32, KvFormat::kF32, {}};
  KvStorage storage(*backend, {4, make_layout(group, 16).block_bytes()}, 16);
  storage.set_group(0, group);
  const auto bytes = static_cast<size_t>(storage.layout(0).block_bytes());
  std::byte* arena = storage.view(0, 0).arena;
  for (size_t i = 0; i < 4 * bytes; ++i) arena[i] = static_cast<std::byte>(i / bytes + 1);
  storage.copy_block(0, 1, 0, 3);
  for (size_t i = 0; i < 4 * bytes; ++i) {
    const size_t block = i / bytes;
    ASSERT_EQ(static_cast<size_t>(arena[i]), block == 3 ? 2 : block + 1);
  }
}

// Whoever has a page, its blocks lie in it and in no other, and no two blocks of it overlap.
TEST(KvStorage, BlocksOfEverySizeStayInTheirPage) {
  const auto backend = make_ref_backend();
  KvStorage storage(*backend, {3, 1000 * 64}, 16);
  for (const int dim : {8, 24, 40}) {
    const KvGroup group{{0, 1}, {2, dim, dim}, KvFormat::kF16, KvFormat::kF32, {}};
    storage.set_group(0, group);
    const KvView view = storage.view(0, 1);
    const std::int64_t bytes = view.layout.block_bytes();
    const std::int64_t per_page = 64000 / bytes;
    for (BlockId block = 0; block < 3 * per_page; ++block) {
      const std::int64_t at = view.block_at(block) - view.arena;
      EXPECT_EQ(at / 64000, block / per_page);
      EXPECT_EQ((at + bytes - 1) / 64000, block / per_page);
      EXPECT_TRUE(block == 0 || at >= view.block_at(block - 1) - view.arena + bytes);
      EXPECT_EQ(view.v_head(block, 1) - view.k_head(block, 1), view.layout.k_head_bytes);
    }
    std::vector<std::byte> written(static_cast<size_t>(bytes), std::byte{7});
    storage.write_block(0, static_cast<BlockId>(2 * per_page - 1), written);
    storage.copy_block(0, static_cast<BlockId>(2 * per_page - 1), 0, static_cast<BlockId>(2 * per_page));
    EXPECT_EQ(*view.block_at(static_cast<BlockId>(2 * per_page)), std::byte{7});
  }
}

class SavedBlocksTest : public ::testing::TestWithParam<Form> {};

INSTANTIATE_TEST_SUITE_P(Forms, SavedBlocksTest, ::testing::ValuesIn(all_forms()), form_name);

// Of 8 MB: what saves and restores them must keep the order of all that happens, though nobody waits.
TEST_P(SavedBlocksTest, ComeBackElsewhereThoughTheirPlacesWereTakenAtOnce) {
  const auto backend = make_plain(GetParam());
  const KvGroup group{{0, 1}, {8, 64, 64}, KvFormat::kF32, KvFormat::kF32, {}};
  const auto bytes = static_cast<size_t>(make_layout(group, 16).block_bytes());
  constexpr BlockId kBlocks = 64;
  KvStorage storage(*backend, {3 * kBlocks, static_cast<std::int64_t>(bytes)}, 16);
  storage.set_group(0, group);
  const Buffer host = storage.allocate_on_host(kBlocks * bytes);
  std::vector<HostCopy> away;
  std::vector<HostCopy> back;
  for (BlockId block = 0; block < kBlocks; ++block) {
    storage.write_block(0, block, std::vector(bytes, static_cast<std::byte>(block + 1)));
    std::byte* place = host.as<std::byte>() + static_cast<size_t>(block) * bytes;
    away.push_back(storage.saved_at(place, 0, block));
    back.push_back(storage.saved_at(place, 0, 2 * kBlocks - 1 - block));
  }
  storage.save(away);
  for (BlockId block = 0; block < kBlocks; ++block) storage.copy_block(0, 2 * kBlocks, 0, block);  // zeros
  storage.restore(back);
  for (BlockId block = 0; block < kBlocks; ++block) storage.copy_block(0, kBlocks + block, 0, 2 * kBlocks + block);
  std::vector<std::byte> found(bytes);
  for (BlockId block = 0; block < kBlocks; ++block) {
    storage.read_block(0, block, found);
    EXPECT_EQ(found, std::vector(bytes, std::byte{0})) << block;
    storage.read_block(0, 2 * kBlocks + block, found);
    EXPECT_EQ(found, std::vector(bytes, static_cast<std::byte>(kBlocks - block))) << block;
  }
}

}  // namespace
}  // namespace kvasir::testing
