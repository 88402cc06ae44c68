// Prefill attention on Hopper: many query rows of one sequence, over usual f16 and bf16 or dequantized blocks
// (dequant_kv.h).
//
// A CTA has 128 query rows: the heads of one KV head for neighbouring tokens. Two consumer warpgroups of 64 rows
// process the KV tiles that producer warps load (producer.cuh), merge chunks and chunk groups in order, as
// merge_states.cu does, and write their rows at the end. Scores of the next tile are issued before the values of this
// one, so that softmax overlaps with wgmma.
//
// Query rows are wgmma's m64, K and V lie as in the cache, and sums have the bits of attention_math.cuh. Scales are
// multiplied into scores and weights as there; the sum of unscaled weights is then a wgmma of its own.
#include <algorithm>

#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/decode/tma_addresses.cuh"
#include "backend/cuda/attention/dispatch.cuh"
#include "backend/cuda/attention/prefill/consumer.cuh"
#include "backend/cuda/attention/prefill/producer.cuh"
#include "backend/cuda/runtime/cuda_check.h"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

constexpr int kThreads = (1 + kConsumers) * 128;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Scales want more registers, which producer warps can do without.
template <class Form>
constexpr int kProducerRegisters = Form::kScaled ? 24 : 40;
template <class Form>
constexpr int kConsumerRegisters = Form::kScaled ? 240 : 232;

template <class Form, int kDim>
struct PrefillConsumer {
  using Smem = PrefillSmem<kDim>;
  using Keys = typename Form::Keys;
  using Values = typename Form::Values;
  const AttentionArgs& args;
  Smem& smem;
  int number;  // of the warpgroup

  __device__ void run() const {
    TileScheduler scheduler(args);
    WorkTile work;
    Ring ring;
    while (scheduler.next(work)) {
      const ConsumerRows rows{args, work, number * kRowsOfConsumer};
      RowSums<kDim> sums(smem.totals[number]);
      if constexpr (Form::kScaled) sums.totals.factors[thread()] = {rows.factor<kDim>(0), rows.factor<kDim>(1)};
      attend(rows, ring, sums);
      sums.normalize();
      if (Form::kScaled && args.hadamard_out) sums.hadamard();
      rows.write(sums);
    }
  }

 private:
  static __device__ int thread() { return static_cast<int>(threadIdx.x) % hopper::kWarpgroupThreads; }
  static __device__ void give_back(std::uint64_t& barrier) {
    if (threadIdx.x % 32 == 0) hopper::arrive(hopper::shared_address(&barrier));
  }

  // Issues wgmma without waiting.
  __device__ __forceinline__ void multiply_keys(unsigned stage, const RowQueries<kDim>& q, TileScores& s) const {
    const std::uint64_t k = smem.keys(stage);
    hopper::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      hopper::multiply_by_rows<Keys>(s, q[step], hopper::advance_descriptor(k, step * 512), step);
    }
    hopper::wgmma_commit();
  }
  __device__ __forceinline__ void multiply_values(unsigned stage, const TileWeights& p, int adds,
                                                  RowSums<kDim>& sums) const {
    const std::uint64_t v = smem.values(stage);
    hopper::wgmma_fence();
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      hopper::multiply_by_rows<Values>(sums.o, p[block], hopper::advance_descriptor(v, block * Smem::kBlockBytes),
                                       adds + block);
      if constexpr (!Form::kScaled) add_up<Values>(p[block], smem.ones, adds + block, sums.d);
    }
    hopper::wgmma_commit();
  }
  // Weights of the tile whose keys are in `stage`. With scales this sums the weights, too.
  __device__ __forceinline__ void make_weights(unsigned stage, int tile, const TileScores& s, TileWeights& p,
                                               RowSums<kDim>& sums) const {
    if constexpr (!Form::kScaled) {
      pack<Values>(s, p);
    } else {
      const ScaledTile scaled{smem.scales[stage], smem.empty_k[stage], smem.ones};
      weigh<Values>(scaled, tile % kTilesOfChunk, s, p, sums.d);
    }
  }

  __device__ __forceinline__ void mask(const ConsumerRows& rows, int tile, TileScores& s) const {
    const Position first = rows.work.first_key(tile);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const KeyMask mask_of_row(args.view, rows.query(rows.own(i)), first);
#pragma unroll
      for (int j = i * 2; j < kTileTokens / 2; j += 4) {
        const int key = j / 4 * 8 + lane_pair() * 2;
        if (!mask_of_row.of(key)) s[j] = -INFINITY;
        if (!mask_of_row.of(key + 1)) s[j + 1] = -INFINITY;
      }
    }
  }

  // Adds the non-finite values that were cleared. The lane that frees the stage reads their number, mostly 0.
  __device__ __forceinline__ void add_infinities(const ConsumerRows& rows, int tile, const Infinities& found,
                                                 RowSums<kDim>& sums) const {
    const Position first = rows.work.first_key(tile);
    const int own = threadIdx.x % 32 == 0 ? min(found.count, kMostInfinities) : 0;
    const int count = __shfl_sync(0xffffffff, own, 0);
    for (int n = 0; n < count; ++n) {
      const Infinity one = found.list[n];
      if (one.dim % 8 / 2 != lane_pair()) continue;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (!args.view.reads(rows.query(rows.own(i)), first + one.token)) continue;
#pragma unroll
        for (int j = 0; j < kDim / 4; ++j) {  // a dynamic index would move the sums out of registers
          float& sum = sums.o[j / 2 * 4 + i * 2 + j % 2];
          sum = j / 2 * 8 + j % 2 == one.dim - lane_pair() * 2 ? sum + one.value : sum;
        }
      }
    }
  }

  __device__ __forceinline__ void end_values(const ConsumerRows& rows, int tile, unsigned stage,
                                             RowSums<kDim>& sums) const {
    hopper::wgmma_wait<0>();
    hopper::hold(sums.o);
    hopper::hold(sums.d);
    if (!rows.work.sees_all(tile)) {
      add_infinities(rows, tile, smem.infinities[stage], sums);
      __syncwarp();  // all lanes have read the list
    }
    give_back(smem.empty_v[stage]);
  }

  // Called when the scores of tile `tile` are complete.
  __device__ __forceinline__ void scores_to_weights(const ConsumerRows& rows, int tile, unsigned stage, TileScores& s,
                                                    RowSums<kDim>& sums) const {
    hopper::hold(s);
    if constexpr (Form::kScaled) {
      scale_scores(smem.scales[stage], s);
    } else {
      give_back(smem.empty_k[stage]);
    }
    if (!rows.work.sees_all(tile)) mask(rows, tile, s);
    if (tile % kTilesOfChunk == 0) sums.begin_chunk();
    float2 factor{args.scale, args.scale};
    if constexpr (Form::kScaled) factor = sums.totals.factors[thread()];
    soften({factor.x, factor.y}, s, sums.m, sums.rescaling);
    hopper::settle(s);
  }

  // Before the values of a tile: rescales the chunk's sums to the new maximum, or merges the chunk, and the group,
  // that have ended.
  __device__ __forceinline__ void make_ready(const ConsumerRows& rows, int tile, RowSums<kDim>& sums) const {
    if (tile % kTilesOfChunk != 0) {
      const float(&by)[2] = sums.rescaling;
      if (__any_sync(0xffffffff, by[0] != 1.0F || by[1] != 1.0F)) sums.rescale(by);
    } else {
      sums.merge_chunk();
      if (!rows.work.begins_group(tile)) return;
      if (rows.work.groups_ended(tile - 1)) sums.add_totals();
      sums.put_aside();
    }
  }

  __device__ void attend(const ConsumerRows& rows, Ring& ring, RowSums<kDim>& sums) const {
    const int tiles = rows.work.tiles;
    RowQueries<kDim> q;
    TileScores s;
    TileWeights p;
    if (Form::kScaled && args.q != nullptr) {
      rows.load_prepared<kDim>(q);
    } else {
      rows.round_queries<Keys, kDim>(q);
    }
    hopper::wait(hopper::shared_address(&smem.full_k[ring.stage()]), ring.parity());
    multiply_keys(ring.stage(), q, s);
    hopper::wgmma_wait<0>();
    scores_to_weights(rows, 0, ring.stage(), s, sums);
    make_weights(ring.stage(), 0, s, p, sums);
    for (int tile = 0; tile + 1 < tiles; ++tile) {
      const Ring now = ring;
      ++ring.count;
      hopper::wait(hopper::shared_address(&smem.full_k[ring.stage()]), ring.parity());
      hopper::wait(hopper::shared_address(&smem.full_v[now.stage()]), now.parity());
      multiply_keys(ring.stage(), q, s);
      multiply_values(now.stage(), p, tile % kTilesOfChunk, sums);
      hopper::wgmma_wait<1>();
      scores_to_weights(rows, tile + 1, ring.stage(), s, sums);
      end_values(rows, tile, now.stage(), sums);
      make_ready(rows, tile + 1, sums);
      make_weights(ring.stage(), tile + 1, s, p, sums);
    }
    hopper::wait(hopper::shared_address(&smem.full_v[ring.stage()]), ring.parity());
    multiply_values(ring.stage(), p, (tiles - 1) % kTilesOfChunk, sums);
    end_values(rows, tiles - 1, ring.stage(), sums);
    ++ring.count;
    sums.begin_chunk();
    sums.merge_chunk();
    if (rows.work.groups_ended(tiles - 1)) sums.add_totals();
  }
};

#endif

template <class Form, int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    attend_prefill(const __grid_constant__ AttentionArgs args, const __grid_constant__ WgmmaMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  auto& smem = *align_smem<PrefillSmem<kDim>>(shared);
  if (threadIdx.x == 0) smem.init(kConsumers * (Form::kScaled ? hopper::kWarpgroupThreads : 4));
  if (threadIdx.x < 128) smem.ones[threadIdx.x] = Form::Values::kOnes & 0xffffU;
  hopper::fence_async_proxy();
  __syncthreads();
  pdl_wait();
  pdl_trigger();  // not earlier: see PdlOrder
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp < 4) {
    hopper::setmaxnreg_dec<kProducerRegisters<Form>>();
    const PrefillProducer<Form, kDim> producer{args, maps, smem};
    if (warp == 0) producer.produce_keys();
    if (warp == 1) producer.produce_values();
    if (warp == 2) ValueCleaner<typename Form::Values, kDim>{args, smem}.run();
  } else {
    hopper::setmaxnreg_inc<kConsumerRegisters<Form>>();
    PrefillConsumer<Form, kDim>{args, smem, warp / 4 - 1}.run();
  }
#endif
}

template <class Form, int kDim>
void launch(const AttentionArgs& args, const WgmmaMaps& maps, cudaStream_t stream) {
  const auto kernel = attend_prefill<Form, kDim>;
  constexpr size_t kSmemBytes = sizeof(PrefillSmem<kDim>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmemBytes),
        "attention's shared memory");
  const int ctas = std::min(args.sm_count, args.prefill_tile_count * args.view.layout.shape.heads);
  launch_pdl("prefill attention", kernel, {dim3(static_cast<unsigned>(ctas)), dim3(kThreads), kSmemBytes}, stream,
             args, maps);
}

}  // namespace

void wgmma_attention(const AttentionArgs& args, const float* scales, cudaStream_t stream) {
  if (scales == nullptr) {
    return launch_half(args.view.layout, [&]<class Half, int kDim>(Number number) {
      launch<UnscaledKv<Half>, kDim>(args, make_wgmma_maps(args.view, number), stream);
    });
  }
  const WgmmaMaps maps = make_wgmma_maps(args.view, Number::kF16, scales);  // boxes of bf16 have the same size
  launch_dim(args.view.layout, [&]<int kDim>() { launch<ScaledKv, kDim>(args, maps, stream); });
}

}  // namespace kvasir::cuda
