// Attention of many sequences over a prefix that they share, on Hopper, over usual f16 and bf16 or dequantized blocks
// (dequant_kv.h): blocks are read once for 128 rows of any of the sequences.
//
// Query rows are wgmma's m64, as in wgmma.cu, and see every key. A CTA processes its items, mostly a chunk group
// each: two consumer warpgroups multiply and merge its chunks, producer warps load (prefix_producer.cuh). With fewer
// groups than SMs items are smaller and every chunk has a partial; merge_states.cu merges either, in order.
#include <algorithm>

#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/decode/tma_tiles.cuh"
#include "backend/cuda/attention/dispatch.cuh"
#include "backend/cuda/attention/prefill/prefix_producer.cuh"
#include "backend/cuda/attention/prefix_plan.h"
#include "backend/cuda/runtime/cuda_check.h"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace prefix {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kConsumerRegisters = 232;
constexpr int kOtherRegisters = 40;

// A thread's sums of rows g and g + 8, in the order of scores. Without scales the sums of weights, of row g twice and
// of row g + 8, are columns of the same wgmma, after o.
template <class Form, int kDim>
struct PrefixSums {
  static constexpr int kWeightSums = Form::kScaled ? 0 : 4;
  float o[kDim / 2 + kWeightSums];  // of the current chunk
  float apart[4];
  float merged[kDim / 2];  // of earlier chunks of the same partial
  float m[2];              // of the current scores, which may be a chunk ahead of o
  float ended_m[2];        // of the chunk before
  float rescale[2];        // the factor of o under the new m
  float4& merged_states;   // m and d of both rows; in shared memory, since registers are scarce

  __device__ __forceinline__ explicit PrefixSums(float4& states) : merged_states(states) {
    clear();
    m[0] = m[1] = -INFINITY;
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) merged[i] = 0.0F;
    merged_states = {-INFINITY, 0.0F, -INFINITY, 0.0F};
  }
  __device__ __forceinline__ void begin_chunk() {
    ended_m[0] = m[0];
    ended_m[1] = m[1];
    m[0] = m[1] = -INFINITY;
  }
  __device__ __forceinline__ void merge_chunk() {
    const float4 states = merged_states;
    const MergeScales g = merge_scales({states.x, states.y}, {ended_m[0], of_weights(0)});
    const MergeScales h = merge_scales({states.z, states.w}, {ended_m[1], of_weights(2)});
    merged_states = {g.state.m, g.state.d, h.state.m, h.state.d};
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) merged[i] = merge_sums(i / 2 % 2 == 0 ? g : h, merged[i], o[i]);
  }
  __device__ __forceinline__ void scale() {
    if (!__any_sync(0xffffffff, rescale[0] != 1.0F || rescale[1] != 1.0F)) return;
#pragma unroll
    for (int i = 0; i < kDim / 2 + kWeightSums; ++i) o[i] = __fmul_rn(o[i], rescale[i / 2 % 2]);
    if constexpr (Form::kScaled) {
#pragma unroll
      for (int i = 0; i < 4; ++i) apart[i] = __fmul_rn(apart[i], rescale[i / 2]);
    }
  }

 private:
  __device__ __forceinline__ float of_weights(int i) const { return Form::kScaled ? apart[i] : o[kDim / 2 + i]; }
};

// Where a consumer is.
struct Cursor {
  int item;         // among the CTA's
  int left;         // chunks of the item, the current one included
  unsigned parity;  // of the barriers of the chunk's tiles, a stage each
};
struct Parities {
  unsigned now, next;  // of a tile, and of the next one
};

// One warpgroup with 64 rows. Items are one sequence of chunks to it. Scores of a tile are issued before the values
// of the tile before, so that softmax overlaps with wgmma.
template <class Form, int kDim>
struct PrefixConsumer {
  static_assert(kStages == kTilesOfChunk);
  using Sums = PrefixSums<Form, kDim>;
  using Values = typename Form::Values;
  const AttentionArgs& args;
  const PrefixArgs& prefixes;
  Smem<kDim>& smem;

  __device__ __forceinline__ void run() const {
    Cursor at{0, 0, 0};
    RowQueries<kDim> q;
    TileScores s;
    TileWeights p;
    Sums sums(smem.states[threadIdx.x]);
    begin_item(at, q);
    arrive_at(smem.empty_queries);
    wait_at(smem.full_k[0], 0);
    multiply_keys(0, q, s);
    hopper::wgmma_wait<0>();
    scores_to_weights(0, s, sums);
    make_weights(0, s, p, sums);
    while (true) {
      go_on<0>({at.parity, at.parity}, q, s, p, sums);
      go_on<1>({at.parity, at.parity}, q, s, p, sums);
      go_on<2>({at.parity, at.parity}, q, s, p, sums);
      Cursor next = at;
      if (!advance(next, q)) break;
      go_on<3>({at.parity, next.parity}, q, s, p, sums);
      end_chunk(at, sums);
      make_weights(0, s, p, sums);
      if (at.left == 1) arrive_at(smem.empty_queries);  // its rows and partial indices are free
      at = next;
    }
    wait_at(smem.full_v[3], at.parity);
    multiply_values(3, p, sums.o);
    hopper::wgmma_wait<0>();
    hopper::hold(sums.o);
    sums.begin_chunk();
    end_chunk(at, sums);
  }

 private:
  // Issues scores of the next tile and values of tile kTile; then softmax, except for the last tile of a chunk.
  template <int kTile>
  __device__ __forceinline__ void go_on(Parities parities, const RowQueries<kDim>& q, TileScores& s, TileWeights& p,
                                        Sums& sums) const {
    constexpr int kNext = (kTile + 1) % kTilesOfChunk;
    wait_at(smem.full_k[kNext], parities.next);
    wait_at(smem.full_v[kTile], parities.now);
    multiply_keys(kNext, q, s);
    multiply_values(kTile, p, sums.o);
    hopper::wgmma_wait<1>();
    if constexpr (kNext == 0) sums.begin_chunk();
    scores_to_weights(kNext, s, sums);
    hopper::settle(s);
    hopper::wgmma_wait<0>();
    hopper::hold(sums.o);
    give_back(smem.empty_v[kTile]);
    if constexpr (kNext == 0) return;
    sums.scale();
    make_weights(kNext, s, p, sums);
  }

  // Called when the scores of the tile in `stage` are complete.
  __device__ __forceinline__ void scores_to_weights(int stage, TileScores& s, Sums& sums) const {
    hopper::hold(s);
    float2 factor{args.scale, args.scale};
    if constexpr (Form::kScaled) {
      scale_scores(smem.scales[stage], s);
      factor = smem.factors[threadIdx.x];
    } else {
      give_back(smem.empty_k[stage]);
    }
    soften({factor.x, factor.y}, s, sums.m, sums.rescale);
  }
  // With scales this sums the weights, too.
  __device__ __forceinline__ void make_weights(int stage, const TileScores& s, TileWeights& p, Sums& sums) const {
    if constexpr (!Form::kScaled) {
      pack<Values>(s, p);
    } else {
      const ScaledTile scaled{smem.scales[stage], smem.empty_k[stage], smem.ones};
      weigh<Values>(scaled, stage, s, p, sums.apart);
    }
  }

  static __device__ void give_back(std::uint64_t& barrier) {
    if (lane_of_warp() == 0) arrive_at(barrier);
  }
  __device__ int warp() const { return static_cast<int>(threadIdx.x) / 32; }  // consumers are the first warps

  __device__ __forceinline__ void begin_item(Cursor& at, RowQueries<kDim>& q) const {
    if (at.item > 0) wait_at(smem.full_queries, static_cast<unsigned>(at.item - 1) & 1U);
    const uint4* from = smem.queries + warp() * (kDim / 16) * 32 + lane_of_warp();
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      const uint4 four = from[step * 32];
      q[step][0] = four.x;
      q[step][1] = four.y;
      q[step][2] = four.z;
      q[step][3] = four.w;
    }
    const ItemInfo& item = smem.items[at.item % 2];
    at.left = item.chunks;
    if constexpr (Form::kScaled) {
      const int row = warp() * 16 + lane_group();
      smem.factors[threadIdx.x] = {item.factors[row], item.factors[row + 8]};
    }
  }
  // Advances to the next chunk; false: there is none.
  __device__ __forceinline__ bool advance(Cursor& at, RowQueries<kDim>& q) const {
    at.parity ^= 1U;
    if (--at.left > 0) return true;
    ++at.item;
    if (!PrefixItems{prefixes, at.item}.there()) return false;
    begin_item(at, q);
    return true;
  }

  // Both issue wgmma without waiting.
  __device__ __forceinline__ void multiply_keys(int stage, const RowQueries<kDim>& q, TileScores& s) const {
    const std::uint64_t k = hopper::matrix_descriptor(hopper::shared_address(smem.k[stage]),
                                                      {hopper::Swizzle::k32, Smem<kDim>::kBlockBytes, 256});
    hopper::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      hopper::multiply_by_rows<typename Form::Keys>(s, q[step], k + step * (16 * kBlockOfTile * 2 / 16), step);
    }
    hopper::wgmma_commit();
  }
  // The first tile of a chunk overwrites the sums.
  __device__ __forceinline__ void multiply_values(int tile, const TileWeights& p,
                                                  float (&o)[kDim / 2 + Sums::kWeightSums]) const {
    const std::uint64_t v = hopper::matrix_descriptor(hopper::shared_address(smem.v[tile]),
                                                      {hopper::Swizzle::k128, kBlockOfTile * kRowBytes, 1024});
    hopper::wgmma_fence();
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      hopper::multiply_by_rows<Values>(o, p[block], v + block * (Smem<kDim>::kValueBytes / 16), tile + block);
    }
    hopper::wgmma_commit();
  }

  // Merges the chunk, and writes the partial if it is complete.
  __device__ __forceinline__ void end_chunk(const Cursor& at, Sums& sums) const {
    sums.merge_chunk();
    const ItemInfo& item = smem.items[at.item % 2];
    if (at.left > 1 && item.chunks_of_partial > 1) return;
    const std::int64_t offset = (item.chunks - at.left) / item.chunks_of_partial * item.step;
    const float4 states = sums.merged_states;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t first = item.sums[warp() * 16 + lane_group() + i * 8];
      if (first < 0) continue;
      float* to = args.prefix_out + (first + offset) * kDim + lane_pair() * 2;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        hopper::store_evict_last(to + j * 8, float2{sums.merged[j * 4 + i * 2], sums.merged[j * 4 + i * 2 + 1]});
      }
      if (lane_pair() == 0) {
        args.prefix_states[first + offset] =
            i == 0 ? SoftmaxState{states.x, states.y} : SoftmaxState{states.z, states.w};
      }
    }
    sums.clear();
  }
};

#endif

template <class Form, int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    attend_prefixes(const __grid_constant__ AttentionArgs args, const __grid_constant__ PrefixArgs prefixes,
                    const __grid_constant__ WgmmaMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 memory[];
  auto& smem = *align_smem<Smem<kDim>>(memory);
  make_ready<Form>(smem);
  __syncthreads();
  PdlOrder::of_prefixes(args).begin();
  PdlOrder::of_prefixes(args).wait_for_rows();
  const QueryLoader<Form, kDim> loader{args, prefixes, smem};
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp < kConsumers * 4) {
    hopper::setmaxnreg_inc<kConsumerRegisters>();
    loader.load_first(static_cast<int>(threadIdx.x));
    PrefixConsumer<Form, kDim>{args, prefixes, smem}.run();
  } else {
    hopper::setmaxnreg_dec<kOtherRegisters>();
    const PrefixProducer<Form, kDim> producer{args, prefixes, maps, smem};
    if (warp == kConsumers * 4) producer.produce_keys();
    if (warp == kConsumers * 4 + 1) producer.produce_values();
    if (warp >= kConsumers * 4 + 2) loader.run(static_cast<int>(threadIdx.x) - (kConsumers * 4 + 2) * 32);
  }
  PdlOrder::of_prefixes(args).end();
#endif
}

template <class Form, int kDim>
void launch(const AttentionArgs& args, const PrefixArgs& prefixes, const WgmmaMaps& maps, cudaStream_t stream) {
  const auto kernel = attend_prefixes<Form, kDim>;
  constexpr size_t kSmemBytes = sizeof(Smem<kDim>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmemBytes),
        "attention's shared memory");
  const auto ctas = static_cast<unsigned>(ctas_for_prefix_items(prefixes.prefix_item_count, args.sm_count));
  launch_pdl("shared-prefix attention", kernel, {dim3(ctas), dim3(kThreads), kSmemBytes}, stream, args, prefixes,
             maps);
}

}  // namespace
}  // namespace prefix

void shared_prefix_attention(const AttentionArgs& args, const PrefixArgs& prefixes, cudaStream_t stream) {
  const KvLayout& layout = args.view.layout;
  if (prefixes.scales == nullptr) {
    return launch_half(layout, [&]<class Half, int kDim>(Number number) {
      prefix::launch<UnscaledKv<Half>, kDim>(args, prefixes, make_wgmma_maps(args.view, number), stream);
    });
  }
  // boxes of bf16 have the same size
  const WgmmaMaps maps = make_wgmma_maps(args.view, Number::kF16, prefixes.scales);
  launch_dim(layout, [&]<int kDim>() { prefix::launch<ScaledKv, kDim>(args, prefixes, maps, stream); });
}

}  // namespace kvasir::cuda
