#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "model/known_models.h"
#include "plan/gpus.h"

namespace kvasir {
namespace {

constexpr std::uint64_t kGB = 1'000'000'000;

PlanInput input_of(const char* model, std::int64_t context, KvFormat format = KvFormat::kF16) {
  const ModelSpec config = shape_named(model);
  PlanInput input;
  input.weights_bytes = parameter_count(config) * block_bytes(config.dtype);
  input.groups = kv_groups(config, uniform_policy(format));
  input.context = context;
  return input;
}

// One layer, one head, one number each of K and V in f16: 4 bytes a token.
KvGroup tiny_group(Retention retention = {}) { return {{0}, {1, 1, 1}, KvFormat::kF16, KvFormat::kF16, retention}; }

PlanInput tiny_input(std::int64_t context, std::vector<KvGroup> groups = {tiny_group()}) {
  PlanInput input;
  input.groups = std::move(groups);
  input.context = context;
  return input;
}

// Rows of ten layers of forty; in the others a state, whatever the length of the text.
TEST(Plan, StatesTakeTheSameForEveryLength) {
  for (const std::int64_t context : {1000, 100000}) {
    const MemoryPlan plan = plan_memory(input_of("qwen3.6-35b-a3b", context));
    EXPECT_EQ(plan.bytes_per_token, 20U << 10);
    EXPECT_EQ(plan.state_bytes, 30U * ((2U << 20) + (96U << 10)));  // 61.5 MiB, had it inputs of 16 bits
    ASSERT_EQ(plan.groups.size(), 2U);
    EXPECT_EQ(plan.groups[0].layers, 10);
    EXPECT_EQ(plan.groups[1].layers, 30);
    EXPECT_EQ(plan.bytes_per_request,
              static_cast<std::uint64_t>((context + 15) / 16) * (320U << 10) + plan.state_bytes);
  }
  EXPECT_EQ(plan_memory(input_of("qwen3.6-27b", 1000)).bytes_per_token, 64U << 10);
}

TEST(Plan, LlamaAt32KFitsIn24GB) {
  PlanInput input = input_of("llama-3.1-8b", 32768);
  input.memory_bytes = 24 * kGB;
  const MemoryPlan plan = plan_memory(input);
  EXPECT_EQ(input.weights_bytes, 16'060'522'496U);
  EXPECT_EQ(plan.bytes_per_token, 131072U);
  EXPECT_EQ(plan.bytes_per_block, 131072U * 16);
  EXPECT_EQ(plan.kv_bytes, 4'294'967'296U);
  EXPECT_EQ(plan.total_bytes, 20'355'489'792U);
  EXPECT_TRUE(*plan.fits);
  EXPECT_EQ(*plan.max_users, 1);
  EXPECT_TRUE(plan.suggestions.empty());
}

TEST(Plan, LlamaAt64KDoesNotFitIn24GB) {
  PlanInput input = input_of("llama-3.1-8b", 65536);
  input.memory_bytes = 24 * kGB;
  const MemoryPlan plan = plan_memory(input);
  EXPECT_EQ(plan.kv_bytes, 8'589'934'592U);
  EXPECT_EQ(plan.total_bytes, 24'650'457'088U);
  EXPECT_FALSE(*plan.fits);
  EXPECT_EQ(*plan.max_users, 0);
  EXPECT_EQ(*plan.max_context, 60560);
}

TEST(Plan, KnownBytesPerToken) {
  const auto per_token = [](const char* model) {
    return plan_memory(input_of(model, 1, KvFormat::kBF16)).bytes_per_token;
  };
  EXPECT_EQ(per_token("llama-2-7b"), 512U * 1024);
  EXPECT_EQ(per_token("llama-2-70b"), 320U * 1024);
  EXPECT_EQ(per_token("llama-3.1-8b"), 128U * 1024);
  EXPECT_EQ(per_token("llama-3.2-1b"), 32U * 1024);
  EXPECT_EQ(per_token("qwen3-0.6b"), 112U * 1024);
  EXPECT_EQ(per_token("qwen2.5-0.5b"), 12U * 1024);
  EXPECT_EQ(per_token("smollm2-135m"), 22U * 1024 + 512);
  EXPECT_EQ(per_token("tales"), 5120U);
  EXPECT_EQ(per_token("tales-draft"), 512U);
}

// What others have said of these models.
TEST(Plan, WhatIsKnownComesOut) {
  const auto of = [](const char* model, std::int64_t context, KvFormat format = KvFormat::kF16) {
    return plan_memory(input_of(model, context, format));
  };
  EXPECT_EQ(of("llama-3.1-8b", 32768).kv_bytes, 4'294'967'296U);                    // 4.29 GB
  EXPECT_EQ(of("llama-7b", 1024).kv_bytes, 536'870'912U);                           // 0.5 GB for 1,024 tokens
  EXPECT_EQ(4 * of("llama-3.1-8b", 1024).kv_bytes, of("llama-7b", 1024).kv_bytes);  // 8 KV heads of 32
  // Half of f16, and a scale of two bytes for each row of 128.
  EXPECT_EQ(of("llama-3.1-8b", 16, KvFormat::kE4M3).bytes_per_token, 131072U / 2 + 2U * 2 * 8 * 32);
  EXPECT_EQ(of("deepseek-v3", 16).bytes_per_token, 61U * 576 * 2);  // 70 KB: one latent row a layer
  const MemoryPlan gemma = of("gemma-4-31b", 100'000);
  ASSERT_EQ(gemma.groups.size(), 2U);
  const bool first_slides = !gemma.groups[0].retention.full();
  const GroupPlan& sliding = gemma.groups[first_slides ? 0 : 1];
  const GroupPlan& full = gemma.groups[first_slides ? 1 : 0];
  EXPECT_EQ(full.layers, 10);
  EXPECT_EQ(full.bytes_per_token, 80U << 10);
  EXPECT_EQ(sliding.layers, 50);
  EXPECT_EQ(sliding.retention.window, 1024);
  EXPECT_EQ(sliding.bytes_per_token * 1024, 800U << 20);
  EXPECT_EQ(sliding.blocks_per_request, 65);
}

TEST(Plan, WithoutMemoryThereIsNoVerdict) {
  const MemoryPlan plan = plan_memory(tiny_input(100));
  EXPECT_FALSE(plan.fits || plan.max_context || plan.max_users || plan.groups[0].pool_blocks);
  EXPECT_EQ(plan.total_bytes, 7U * 16 * 4);
}

TEST(Plan, ReserveAndUsersAreAddedAndNothingElse) {
  PlanInput input = tiny_input(17);
  input.weights_bytes = 1000;
  input.reserve_bytes = 100;
  input.users = 3;
  const MemoryPlan plan = plan_memory(input);
  EXPECT_EQ(plan.bytes_per_request, 2U * 16 * 4);
  EXPECT_EQ(plan.kv_bytes, 3U * 128);
  EXPECT_EQ(plan.total_bytes, 1000U + 100 + 384);
}

TEST(Plan, FitsToTheByte) {
  PlanInput input = tiny_input(32);
  input.weights_bytes = 1000;
  input.memory_bytes = 1128;
  EXPECT_TRUE(*plan_memory(input).fits);
  input.memory_bytes = 1127;
  EXPECT_FALSE(*plan_memory(input).fits);
  EXPECT_EQ(*plan_memory(input).max_context, 16);
}

TEST(Plan, WeightsAloneTooLarge) {
  PlanInput input = tiny_input(32);
  input.weights_bytes = 2000;
  input.memory_bytes = 1000;
  const MemoryPlan plan = plan_memory(input);
  EXPECT_FALSE(*plan.fits);
  EXPECT_EQ(*plan.max_context, 0);
  EXPECT_EQ(*plan.max_users, 0);
  EXPECT_EQ(*plan.groups[0].pool_blocks, 0);
}

TEST(Plan, MaxContextAndMaxUsersAreTheLargest) {
  for (const char* model : {"llama-3.2-1b", "gemma-3-1b", "mistral-7b-v0.1"}) {
    PlanInput input = input_of(model, 4000);
    input.memory_bytes = input.weights_bytes + kGB;
    input.users = 3;
    const MemoryPlan plan = plan_memory(input);
    if (*plan.max_context < kLongestContext) {
      PlanInput at = input;
      at.context = *plan.max_context;
      EXPECT_TRUE(*plan_memory(at).fits) << model;
      at.context += 1;
      EXPECT_FALSE(*plan_memory(at).fits) << model;
    }
    if (*plan.max_users < 1) continue;
    PlanInput at = input;
    at.users = *plan.max_users;
    EXPECT_TRUE(*plan_memory(at).fits) << model;
    at.users += 1;
    EXPECT_FALSE(*plan_memory(at).fits) << model;
  }
}

TEST(Plan, AWindowBoundsTheCache) {
  PlanInput input = input_of("mistral-7b-v0.1", 1'000'000);
  input.memory_bytes = 24 * kGB;
  const MemoryPlan plan = plan_memory(input);
  // 4096 positions that begin anywhere in a block touch 257 blocks.
  EXPECT_EQ(plan.groups[0].blocks_per_request, 257);
  EXPECT_TRUE(*plan.fits);
  EXPECT_EQ(*plan.max_context, kLongestContext);
}

TEST(Plan, HybridModelsHaveTwoGroups) {
  const MemoryPlan plan = plan_memory(input_of("gemma-3-1b", 32768));
  ASSERT_EQ(plan.groups.size(), 2U);
  EXPECT_EQ(plan.groups[0].layers, 22);
  EXPECT_EQ(plan.groups[0].blocks_per_request, 33);  // window 512
  EXPECT_EQ(plan.groups[1].layers, 4);
  EXPECT_EQ(plan.groups[1].blocks_per_request, 2048);
  EXPECT_EQ(plan.bytes_per_request, 33U * 16 * 22 * 1024 + 2048U * 16 * 4 * 1024);
}

// The rule of the cache, word for word: after n tokens a full block is kept while needed(first, last, n); the
// block of the next token is open.
std::int64_t counted_blocks(const Retention& retention, std::int64_t tokens, int block_tokens) {
  std::int64_t most = 0;
  for (std::int64_t next = 0; next < tokens; ++next) {
    std::int64_t held = 1;
    for (std::int64_t block = 0; (block + 1) * block_tokens <= next; ++block) {
      if (retention.needed(block * block_tokens, (block + 1) * block_tokens - 1, next)) ++held;
    }
    most = std::max(most, held);
  }
  return most;
}

TEST(Plan, BlocksHeldIsWhatTheCacheKeeps) {
  for (const int block_tokens : {1, 2, 3, 4, 7}) {
    for (const std::int64_t window : {0, 1, 2, 3, 4, 5, 8, 9, 15}) {
      for (const std::int64_t sinks : {0, 1, 3, 4, 5, 11}) {
        for (std::int64_t tokens = 1; tokens <= 45; ++tokens) {
          const Retention retention{window, sinks};
          ASSERT_EQ(blocks_held(retention, tokens, block_tokens), counted_blocks(retention, tokens, block_tokens))
              << "window " << window << " sinks " << sinks << " tokens " << tokens << " block " << block_tokens;
        }
      }
    }
  }
}

// The largest chunk may be over when the text ends, and may lie across more blocks than the last.
TEST(Plan, BlocksHeldOfChunksIsWhatTheCacheKeeps) {
  for (const int block_tokens : {1, 2, 3, 4, 7}) {
    for (const std::int64_t chunk : {1, 2, 3, 4, 5, 9, 12}) {
      for (const std::int64_t window : {0, 2, 5, 20}) {
        for (std::int64_t tokens = 1; tokens <= 90; ++tokens) {
          const Retention retention{window, 0, chunk};
          ASSERT_EQ(blocks_held(retention, tokens, block_tokens), counted_blocks(retention, tokens, block_tokens))
              << "window " << window << " chunk " << chunk << " tokens " << tokens << " block " << block_tokens;
        }
      }
    }
  }
}

TEST(Plan, PoolBlocksAreWholeAndCanBeNamed) {
  const auto block = static_cast<std::uint64_t>(block_bytes_of(tiny_group(), 16));
  EXPECT_EQ(pool_blocks(0, block), 0);
  EXPECT_EQ(pool_blocks(63, block), 0);
  EXPECT_EQ(pool_blocks(64, block), 1);
  EXPECT_EQ(pool_blocks(6400, block), 100);
  EXPECT_EQ(pool_blocks(std::numeric_limits<std::uint64_t>::max(), block), std::numeric_limits<std::int32_t>::max());
}

TEST(Plan, OneGroupGetsTheWholePool) {
  PlanInput input = tiny_input(32);
  input.weights_bytes = 1000;
  input.reserve_bytes = 24;
  input.memory_bytes = 1024 + 64 * 5 + 63;
  EXPECT_EQ(*plan_memory(input).groups[0].pool_blocks, 5);
}

TEST(Plan, GroupsShareThePoolSoThatTheyRunOutTogether) {
  PlanInput input = tiny_input(64, {tiny_group({16, 0}), tiny_group()});
  const MemoryPlan sizes = plan_memory(input);
  input.memory_bytes = 10 * sizes.bytes_per_request;
  const MemoryPlan plan = plan_memory(input);
  EXPECT_EQ(*plan.groups[0].pool_blocks, 10 * plan.groups[0].blocks_per_request);
  EXPECT_EQ(*plan.groups[1].pool_blocks, 10 * plan.groups[1].blocks_per_request);
}

TEST(Plan, HugeNumbersSaturate) {
  PlanInput input = input_of("llama-3.1-405b", kLongestContext, KvFormat::kF32);
  input.users = kMostUsers;
  input.block_tokens = kLargestBlockTokens;
  input.memory_bytes = kGB;
  const MemoryPlan plan = plan_memory(input);
  EXPECT_EQ(plan.total_bytes, std::numeric_limits<std::uint64_t>::max());
  EXPECT_FALSE(*plan.fits);
}

TEST(Gpus, MayBeSeveral) {
  EXPECT_EQ(gpus_named("4xh100").memory_bytes(), 4 * gpu_named("h100").memory_bytes);
  EXPECT_EQ(gpus_named("2 x RTX 4090").memory_bytes(), 48 * kGB);
  EXPECT_EQ(gpus_named("4090").memory_bytes(), 24 * kGB);
  EXPECT_EQ(gpus_named("h100").count, 1);
  for (const char* wrong : {"0xh100", "4xvoodoo", "x h100", "99999999999999999999xh100", "4x"}) {
    EXPECT_THROW(gpus_named(wrong), Error) << wrong;
  }
}

TEST(Gpus, AreFoundByTheirUsualNames) {
  EXPECT_EQ(gpu_named("rtx4090").memory_bytes, 24 * kGB);
  EXPECT_EQ(gpu_named("NVIDIA GeForce RTX 3090").memory_bytes, 24 * kGB);
  EXPECT_EQ(gpu_named("4060").memory_bytes, 8 * kGB);
  EXPECT_EQ(gpu_named("A100-80GB").memory_bytes, 80 * kGB);
  EXPECT_EQ(gpu_named("a100 40gb").memory_bytes, 40 * kGB);
  EXPECT_EQ(gpu_named("h200").memory_bytes, 141 * kGB);
  EXPECT_EQ(gpu_named("MI300X").memory_bytes, 192 * kGB);
  EXPECT_THROW(gpu_named("a100"), Error);  // which one?
  EXPECT_THROW(gpu_named(""), Error);
  EXPECT_TRUE(std::ranges::is_sorted(known_gpus(), {}, &GpuSpec::memory_bytes));
  for (const GpuSpec& gpu : known_gpus()) EXPECT_EQ(gpu_named(gpu.name).name, gpu.name);
}

}  // namespace
}  // namespace kvasir
