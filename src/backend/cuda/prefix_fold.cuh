// What thread blocks of shared_attention.cu share: how they divide the context of a group among them, and how each
// folds what all of them have multiplied.
//
// Thread block `part` of a group and KV head multiplies splits part, part + parts …: one in each round. Its
// multipliers write a split's sums into global memory, where kRounds rounds have room. One warp tells the others that
// they are there, one waits until all of a round are, and four fold the round: all splits in order, some of the
// dimensions.
//
// A thread block tells of a round when it has folded the one before the last. So when all of round r is there, all
// have folded round r - 2, and round r - 2 + kRounds may be written.
#pragma once

#include "backend/cuda/attention_math.cuh"
#include "backend/cuda/warpgroup.cuh"

namespace kvasir::cuda::prefix {

inline constexpr int kMultipliers = 2;  // warpgroups
inline constexpr int kRowsOfMultiplier = kRowsOfPrefix / kMultipliers;
inline constexpr int kFolders = 4;  // warps
inline constexpr int kThreads = (kMultipliers + 2) * 128;
inline constexpr int kRounds = kRoundsOfPrefix;  // whose sums have room
inline constexpr int kStages = 4;
inline constexpr int kMostParts = 16;

// K as it lies in the cache, rows of 16 tokens; V in rows of 64 numbers, the first 64 of a block's tokens and then
// the second.
template <int kDim>
struct alignas(kBoxAlignment) Room {
  static constexpr int kBlockBytes = kBlockOfTile * kDim * 2;
  static constexpr int kQuads = kDim / 8;  // sums of a multiplier's thread, by four
  std::byte k[kStages][kBlocksOfTile * kBlockBytes];
  std::byte v[kStages][kBlocksOfTile * kBlockBytes];
  float4 folded[kMultipliers * kQuads * 128];  // [multiplier][quads of this thread block][thread]
  SoftmaxState folded_states[kRowsOfPrefix];
  SoftmaxState states[kFolders][kMostParts][16];  // of splits, of a warp's rows
  std::uint64_t full_k[kStages], full_v[kStages], empty_k[kStages], empty_v[kStages];
  int written[kMultipliers];  // warps of a multiplier that have written a split's sums, in all rounds
  int there;                  // rounds of which all thread blocks have told
  int folded_rounds;          // times folders
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

inline constexpr int kTilesOfSplit = kSplitTokens / kTileTokens;

__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int thread_of_group() { return static_cast<int>(threadIdx.x) % hopper::kGroupThreads; }
__device__ inline void wait_at(std::uint64_t& barrier, int phase) {
  hopper::wait(hopper::shared_address(&barrier), static_cast<unsigned>(phase) & 1U);
}
__device__ inline void arrive_at(std::uint64_t& barrier) { hopper::arrive(hopper::shared_address(&barrier)); }

// A number in shared memory that grows. What was written before it grew is seen by who has seen it grow.
__device__ inline void add_one(int& number) {
  asm volatile("red.release.cta.shared::cta.add.s32 [%0], 1;" ::"r"(hopper::shared_address(&number)) : "memory");
}
__device__ inline void wait_until(const int& number, int least) {
  int seen = 0;
  while (true) {
    asm volatile("ld.acquire.cta.shared::cta.s32 %0, [%1];"
                 : "=r"(seen)
                 : "r"(hopper::shared_address(&number))
                 : "memory");
    if (seen >= least) return;
    __nanosleep(32);
  }
}

// What a thread block does: splits part, part + parts … of one group and KV head.
struct Work {
  const AttentionArgs& args;
  const PrefixArgs& prefixes;
  PrefixGroup group;
  int unit, part, kv_head;

  __device__ Work(const AttentionArgs& all, const PrefixArgs& shared) : args(all), prefixes(shared) {
    const int block = static_cast<int>(blockIdx.x);
    unit = block / shared.parts;
    part = block % shared.parts;
    kv_head = unit % all.view.layout.shape.heads;
    group = shared.groups[unit / all.view.layout.shape.heads];
  }

  __device__ int rows() const { return group.tokens * args.heads_per_kv; }
  __device__ int multipliers() const { return rows() > kRowsOfMultiplier ? 2 : 1; }
  __device__ int rounds() const { return (group.splits + prefixes.parts - 1) / prefixes.parts; }
  __device__ int splits_of(int round) const { return min(prefixes.parts, group.splits - round * prefixes.parts); }
  __device__ int own_splits() const { return (group.splits - part + prefixes.parts - 1) / prefixes.parts; }
  __device__ int split(int round) const { return round * prefixes.parts + part; }

  __device__ std::int64_t batch_row(int row) const { return prefixes.rows[group.first + row / args.heads_per_kv]; }
  __device__ int head(int row) const { return kv_head * args.heads_per_kv + row % args.heads_per_kv; }
  // Of the batch's rows and heads.
  __device__ std::int64_t state(int row) const {
    return batch_row(row) * args.view.layout.shape.heads * args.heads_per_kv + head(row);
  }
  // Where the sums of a round's split lie.
  __device__ std::int64_t slot(int round, int of_part) const {
    return (static_cast<std::int64_t>(unit) * kRounds + round % kRounds) * prefixes.parts + of_part;
  }
  template <int kDim>
  __device__ float4* sums(int round, int of_part, int multiplier) const {
    return prefixes.sums + (slot(round, of_part) * kMultipliers + multiplier) * (Room<kDim>::kQuads * 128);
  }
  __device__ SoftmaxState* states(int round, int of_part) const {
    return prefixes.states + slot(round, of_part) * kRowsOfPrefix;
  }
};

// One warp: tells the others of what the multipliers have written.
template <int kDim>
__device__ void tell(const Work& work, Room<kDim>& room) {
  for (int round = 0; round < work.own_splits(); ++round) {
    for (int i = 0; i < work.multipliers(); ++i) wait_until(room.written[i], (round + 1) * 4);
    wait_until(room.folded_rounds, (round - 1) * kFolders);
    if (lane_of_warp() == 0) {
      asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(work.prefixes.arrived + work.unit) : "memory");
    }
    __syncwarp();
  }
}

// One warp: waits for all thread blocks.
template <int kDim>
__device__ void listen(const Work& work, Room<kDim>& room) {
  for (int round = 0; round < work.rounds(); ++round) {
    const int wanted = min((round + 1) * work.prefixes.parts, work.group.splits);
    int seen = 0;
    while (true) {
      asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                   : "=r"(seen)
                   : "l"(work.prefixes.arrived + work.unit)
                   : "memory");
      if (seen >= wanted) break;
      __nanosleep(32);
    }
    __syncwarp();
    if (lane_of_warp() == 0) add_one(room.there);
  }
}

// One warp of four. A batch is what a warp of a multiplier has: 16 rows.
template <int kDim>
struct Folder {
  static constexpr int kQuads = Room<kDim>::kQuads;
  const Work& work;
  Room<kDim>& room;
  int number;

  // Apart for each number of parts, so that all that a warp has is in registers.
  __device__ void run() const {
    switch (work.prefixes.parts) {
      case 1:
        return fold_all<1>();
      case 2:
        return fold_all<2>();
      case 4:
        return fold_all<4>();
      case 8:
        return fold_all<8>();
      default:
        if constexpr (kQuads >= 16) fold_all<16>();
    }
  }

 private:
  __device__ int quads() const { return kQuads / work.prefixes.parts; }  // that this thread block folds
  __device__ float4& folded(int batch, int quad) const {
    return room.folded[(batch / 4 * kQuads + quad) * 128 + batch % 4 * 32 + lane_of_warp()];
  }
  __device__ SoftmaxState& state(int batch, int i) const {
    return room.folded_states[batch * 16 + lane_group() + i * 8];
  }

  __device__ void clear(int batch) const {
    for (int quad = 0; quad < quads(); ++quad) folded(batch, quad) = {0, 0, 0, 0};
    state(batch, 0) = {};
    state(batch, 1) = {};
    __syncwarp();
  }

  template <int kParts>
  __device__ void fold_all() const {
    const int batches = work.multipliers() * 4;
    for (int batch = number; batch < batches; batch += kFolders) clear(batch);
#pragma unroll 1
    for (int round = 0; round < work.rounds(); ++round) {
      wait_until(room.there, round + 1);
      const int splits = work.splits_of(round);
#pragma unroll 1
      for (int batch = number; batch < batches; batch += kFolders) fold_parts<kParts>(batch, round, splits);
      if (lane_of_warp() == 0) add_one(room.folded_rounds);
    }
    for (int batch = number; batch < batches; batch += kFolders) write(batch);
  }

  template <int kParts>
  __device__ void fold_parts(int batch, int round, int splits) const {
    constexpr int kOwn = kQuads / kParts;
    constexpr int kMost = kParts == 1 ? 8 : kParts < 8 ? 4 : 1;
    constexpr int kAtOnce = kOwn < kMost ? kOwn : kMost;
    constexpr int kStep = kMultipliers * kQuads * 128;  // to the next split's sums
    const float4* from =
        work.sums<kDim>(round, 0, batch / 4) + work.part * kOwn * 128 + batch % 4 * 32 + lane_of_warp();
    const SoftmaxState before[2] = {state(batch, 0), state(batch, 1)};
    SoftmaxState sum[2];
#pragma unroll 1
    for (int first = 0; first < kOwn; first += kAtOnce) {
      float4 next[kParts][kAtOnce];  // all that is read is on its way at once
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int quad = 0; quad < kAtOnce; ++quad) {
          if (part < splits) next[part][quad] = __ldcg(from + part * kStep + (first + quad) * 128);
        }
      }
      if (first == 0) load_states(batch, round, splits);
      float4 all[kAtOnce];
#pragma unroll
      for (int quad = 0; quad < kAtOnce; ++quad) all[quad] = folded(batch, first + quad);
      sum[0] = before[0];
      sum[1] = before[1];
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if (part >= splits) continue;
        const Fold g = fold(sum[0], room.states[number][part][lane_group()]);
        const Fold h = fold(sum[1], room.states[number][part][lane_group() + 8]);
        sum[0] = g.state;
        sum[1] = h.state;
#pragma unroll
        for (int quad = 0; quad < kAtOnce; ++quad) {
          const float4& one = next[part][quad];
          all[quad] = {fold(g, all[quad].x, one.x), fold(g, all[quad].y, one.y), fold(h, all[quad].z, one.z),
                       fold(h, all[quad].w, one.w)};
        }
      }
#pragma unroll
      for (int quad = 0; quad < kAtOnce; ++quad) folded(batch, first + quad) = all[quad];
    }
    __syncwarp();  // all have read what is written here
    if (lane_pair() == 0) {
      state(batch, 0) = sum[0];
      state(batch, 1) = sum[1];
    }
    __syncwarp();
  }

  // Of 16 rows and a round's splits into shared memory.
  __device__ void load_states(int batch, int round, int splits) const {
#pragma unroll 1
    for (int i = lane_of_warp(); i < splits * 16; i += 32) {
      const SoftmaxState* at = work.states(round, i / 16) + batch * 16 + i % 16;
      const float2 held = __ldcg(reinterpret_cast<const float2*>(at));
      room.states[number][i / 16][i % 16] = {held.x, held.y};
    }
    __syncwarp();
  }

  __device__ void write(int batch) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = batch * 16 + lane_group() + i * 8;
      if (row >= work.rows()) continue;
      const std::int64_t at = work.state(row);
      if (work.part == 0 && lane_pair() == 0) work.args.begun_states[at] = state(batch, i);
      for (int quad = 0; quad < quads(); ++quad) {
        const float4 four = folded(batch, quad);
        float* to =
            work.args.begun_out + at * work.args.v_stride + (work.part * quads() + quad) * 8 + lane_pair() * 2;
        *reinterpret_cast<float2*>(to) = i == 0 ? float2{four.x, four.y} : float2{four.z, four.w};
      }
    }
  }
};

template <int kDim>
__device__ void init_barriers(Room<kDim>& room, int multipliers) {
  for (int i = 0; i < kStages; ++i) {
    hopper::barrier_init(hopper::shared_address(&room.full_k[i]), 1);
    hopper::barrier_init(hopper::shared_address(&room.full_v[i]), 1);
    hopper::barrier_init(hopper::shared_address(&room.empty_k[i]), multipliers * 4);
    hopper::barrier_init(hopper::shared_address(&room.empty_v[i]), multipliers * 4);
  }
  room.written[0] = room.written[1] = room.there = room.folded_rounds = 0;
  hopper::fence_barrier_init();
}

#endif

}  // namespace kvasir::cuda::prefix
