#include "tune/layer_mix.h"

#include <gtest/gtest.h>

#include "layout/codec.h"
#include "model/known_models.h"

namespace kvasir {
namespace {

TEST(LayerMix, IsAPolicyWhoseFormatsAreTheMixs) {
  const ModelSpec config = resolve_shape("tales").config;
  LayerMix mix = uniform_mix(config.layer_count(), KvFormat::kInt4, KvFormat::kInt2);
  mix[0] = {KvFormat::kInt8, KvFormat::kInt4};
  mix[3] = mix[4] = {KvFormat::kInt8, KvFormat::kInt8};
  KvPolicy others;
  others.recent = 32;
  others.recent_format = KvFormat::kInt8;
  const KvPolicy policy = policy_of(mix, others);
  EXPECT_EQ(to_text(policy), "k=int4, v=int2, 0:int8/int4, 3-4:int8, recent=32:int8");
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    const auto& [k, v] = mix[static_cast<size_t>(layer)];
    EXPECT_EQ(formats_of_layer(policy, layer), std::pair(k, v)) << layer;
  }
}

// What the search adds up is what the cache takes.
TEST(LayerMix, BytesOfPartsAddUpToTheCaches) {
  for (const char* model : {"tales", "llama-3.1-8b"}) {
    const ModelSpec config = resolve_shape(model).config;
    LayerMix mix = uniform_mix(config.layer_count(), KvFormat::kInt4, KvFormat::kInt4);
    for (size_t layer = 0; layer < mix.size(); ++layer) {
      mix[layer] = {kAllKvFormats[layer % kAllKvFormats.size()], kAllKvFormats[layer / 3 % kAllKvFormats.size()]};
    }
    std::int64_t sum = 0;
    for (const auto& [k, v] : mix) sum += part_bytes(config, 0, k) + part_bytes(config, 1, v);
    std::int64_t groups = 0;
    for (const KvGroup& group : kv_groups(config, policy_of(mix, {}))) groups += bytes_per_token(group);
    EXPECT_EQ(sum, groups);
  }
}

TEST(LayerMix, BitsAreThoseOfUniformFormats) {
  const ModelSpec config = resolve_shape("tales").config;
  EXPECT_DOUBLE_EQ(bytes_of_bits(config, 4), 1360);
  EXPECT_DOUBLE_EQ(bytes_of_bits(config, 8), 2640);
  EXPECT_DOUBLE_EQ(bits_of_bytes(config, 720), 2);
  EXPECT_DOUBLE_EQ(bits_of_bytes(config, bytes_of_bits(config, 3.7)), 3.7);
}

}  // namespace
}  // namespace kvasir
