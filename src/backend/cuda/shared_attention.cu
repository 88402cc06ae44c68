// Attention of many sequences over the prefix that they share, f16 and bf16 in blocks of 16 tokens on Hopper, or what
// other formats were widened to (wide_blocks.h): its blocks are read once for 128 rows of any of the sequences.
//
// Rows are the side of 64 of wgmma, as in prompts, and see everything. A thread block takes one piece of a prefix
// after the other, a span mostly: two warpgroups multiply, and fold its splits as prompts do; warps beside them bring
// what they need (prefix_feed.cuh). Where there are fewer spans than processors pieces are smaller, and each split's
// sum is written: in the end merge_splits.cu folds whatever there is, in its order.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/boxed_tiles.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/half_kernels.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/prefix_feed.cuh"
#include "backend/cuda/prefix_plan.h"

namespace kvasir::cuda {
namespace prefix {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kMultiplierRegisters = 232;
constexpr int kOtherRegisters = 40;

// What a thread has of its rows g and g + 8, in the order of scores. Sums of weights, of row g twice and of row g +
// 8, are behind o where they are of the same product.
template <class Form, int kDim>
struct PrefixSums {
  static constexpr int kBehind = Form::kScaled ? 0 : 4;
  float o[kDim / 2 + kBehind];  // of the split at hand
  float apart[4];
  float folded[kDim / 2];  // of the splits that go into the same sum, those before
  float m[2];              // of the scores at hand: a split further on than o where a new one begins
  float ended_m[2];        // of the split before those
  float rescale[2];        // what o is multiplied by before more is added
  float4& folded_states;   // m and d of both; in shared memory, since registers are scarce

  __device__ __forceinline__ explicit PrefixSums(float4& states) : folded_states(states) {
    clear();
    m[0] = m[1] = -INFINITY;
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) folded[i] = 0.0F;
    folded_states = {-INFINITY, 0.0F, -INFINITY, 0.0F};
  }
  __device__ __forceinline__ void begin_split() {
    ended_m[0] = m[0];
    ended_m[1] = m[1];
    m[0] = m[1] = -INFINITY;
  }
  __device__ __forceinline__ void fold_split() {
    const float4 states = folded_states;
    const Fold g = fold({states.x, states.y}, {ended_m[0], of_weights(0)});
    const Fold h = fold({states.z, states.w}, {ended_m[1], of_weights(2)});
    folded_states = {g.state.m, g.state.d, h.state.m, h.state.d};
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) folded[i] = fold(i / 2 % 2 == 0 ? g : h, folded[i], o[i]);
  }
  __device__ __forceinline__ void scale() {
    if (!__any_sync(0xffffffff, rescale[0] != 1.0F || rescale[1] != 1.0F)) return;
#pragma unroll
    for (int i = 0; i < kDim / 2 + kBehind; ++i) o[i] = __fmul_rn(o[i], rescale[i / 2 % 2]);
    if constexpr (Form::kScaled) {
#pragma unroll
      for (int i = 0; i < 4; ++i) apart[i] = __fmul_rn(apart[i], rescale[i / 2]);
    }
  }

 private:
  __device__ __forceinline__ float of_weights(int i) const { return Form::kScaled ? apart[i] : o[kDim / 2 + i]; }
};

// Where a multiplier is.
struct Place {
  int piece;        // of the thread block's
  int left;         // splits of the piece, the one at hand included
  unsigned parity;  // of the barriers of the split's tiles: each has a stage of its own
};
struct Parities {
  unsigned now, next;  // of a tile, and of the next one
};

// One warpgroup with 64 rows. All pieces are one sequence of splits to it: the scores of a tile are multiplied before
// the values of the one before, so that scores become weights while these, or the other multiplier's, are on their
// way.
template <class Form, int kDim>
struct Multiplier {
  static_assert(kStages == kTilesOfSplit);
  using Sums = PrefixSums<Form, kDim>;
  using Values = typename Form::Values;
  const AttentionArgs& args;
  const PrefixArgs& prefixes;
  Room<kDim>& room;

  __device__ __forceinline__ void run() const {
    Place at{0, 0, 0};
    RowQueries<kDim> q;
    TileScores s;
    TileWeights p;
    Sums sums(room.states[threadIdx.x]);
    begin_piece(at, q);
    arrive_at(room.empty_queries);
    wait_at(room.full_k[0], 0);
    multiply_keys(0, q, s);
    hopper::wgmma_wait<0>();
    scores_to_weights(0, s, sums);
    make_weights(0, s, p, sums);
    while (true) {
      go_on<0>({at.parity, at.parity}, q, s, p, sums);
      go_on<1>({at.parity, at.parity}, q, s, p, sums);
      go_on<2>({at.parity, at.parity}, q, s, p, sums);
      Place next = at;
      if (!advance(next, q)) break;
      go_on<3>({at.parity, next.parity}, q, s, p, sums);
      end_split(at, sums);
      make_weights(0, s, p, sums);
      if (at.left == 1) arrive_at(room.empty_queries);  // and where its sums went
      at = next;
    }
    wait_at(room.full_v[3], at.parity);
    multiply_values(3, p, sums.o);
    hopper::wgmma_wait<0>();
    hopper::hold(sums.o);
    sums.begin_split();
    end_split(at, sums);
  }

 private:
  // Scores of the next tile, and values of tile kTile of a split. But for the last one's they are weights then, and
  // the sums ready for its values.
  template <int kTile>
  __device__ __forceinline__ void go_on(Parities parities, const RowQueries<kDim>& q, TileScores& s, TileWeights& p,
                                        Sums& sums) const {
    constexpr int kNext = (kTile + 1) % kTilesOfSplit;
    wait_at(room.full_k[kNext], parities.next);
    wait_at(room.full_v[kTile], parities.now);
    multiply_keys(kNext, q, s);
    multiply_values(kTile, p, sums.o);
    hopper::wgmma_wait<1>();
    if constexpr (kNext == 0) sums.begin_split();
    scores_to_weights(kNext, s, sums);
    hopper::settle(s);
    hopper::wgmma_wait<0>();
    hopper::hold(sums.o);
    give_back(room.empty_v[kTile]);
    if constexpr (kNext == 0) return;
    sums.scale();
    make_weights(kNext, s, p, sums);
  }

  // Of the tile whose keys are in `stage`, and were multiplied.
  __device__ __forceinline__ void scores_to_weights(int stage, TileScores& s, Sums& sums) const {
    hopper::hold(s);
    float2 factor{args.scale, args.scale};
    if constexpr (Form::kScaled) {
      scale_scores(room.scales[stage], s);
      factor = room.factors[threadIdx.x];
    } else {
      give_back(room.empty_k[stage]);
    }
    soften({factor.x, factor.y}, s, sums.m, sums.rescale);
  }
  // Those of values with scales are summed up here.
  __device__ __forceinline__ void make_weights(int stage, const TileScores& s, TileWeights& p, Sums& sums) const {
    if constexpr (!Form::kScaled) {
      pack<Values>(s, p);
    } else {
      const ScaledTile scaled{room.scales[stage], room.empty_k[stage], room.ones};
      weigh<Values>(scaled, stage, s, p, sums.apart);
    }
  }

  static __device__ void give_back(std::uint64_t& barrier) {
    if (lane_of_warp() == 0) arrive_at(barrier);
  }
  __device__ int warp() const { return static_cast<int>(threadIdx.x) / 32; }  // multipliers are the first ones

  __device__ __forceinline__ void begin_piece(Place& at, RowQueries<kDim>& q) const {
    if (at.piece > 0) wait_at(room.full_queries, static_cast<unsigned>(at.piece - 1) & 1U);
    const uint4* from = room.queries + warp() * (kDim / 16) * 32 + lane_of_warp();
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      const uint4 four = from[step * 32];
      q[step][0] = four.x;
      q[step][1] = four.y;
      q[step][2] = four.z;
      q[step][3] = four.w;
    }
    const PieceInfo& piece = room.pieces[at.piece % 2];
    at.left = piece.splits;
    if constexpr (Form::kScaled) {
      const int row = warp() * 16 + lane_group();
      room.factors[threadIdx.x] = {piece.factors[row], piece.factors[row + 8]};
    }
  }
  // To the next split; false: there is none.
  __device__ __forceinline__ bool advance(Place& at, RowQueries<kDim>& q) const {
    at.parity ^= 1U;
    if (--at.left > 0) return true;
    ++at.piece;
    if (!Pieces{prefixes, at.piece}.there()) return false;
    begin_piece(at, q);
    return true;
  }

  // Both are on their way when they return.
  __device__ __forceinline__ void multiply_keys(int stage, const RowQueries<kDim>& q, TileScores& s) const {
    const std::uint64_t k = hopper::matrix_descriptor(hopper::shared_address(room.k[stage]),
                                                      {hopper::Swizzle::k32, Room<kDim>::kBlockBytes, 256});
    hopper::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      hopper::multiply_by_rows<typename Form::Keys>(s, q[step], k + step * (16 * kBlockOfTile * 2 / 16), step);
    }
    hopper::wgmma_commit();
  }
  // The first tile of a split overwrites what is there.
  __device__ __forceinline__ void multiply_values(int tile, const TileWeights& p,
                                                  float (&o)[kDim / 2 + Sums::kBehind]) const {
    const std::uint64_t v = hopper::matrix_descriptor(hopper::shared_address(room.v[tile]),
                                                      {hopper::Swizzle::k128, kBlockOfTile * kRowBytes, 1024});
    hopper::wgmma_fence();
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      hopper::multiply_by_rows<Values>(o, p[block], v + block * (Room<kDim>::kValueBytes / 16), tile + block);
    }
    hopper::wgmma_commit();
  }

  // Its sums join the others, which are written where they are complete.
  __device__ __forceinline__ void end_split(const Place& at, Sums& sums) const {
    sums.fold_split();
    const PieceInfo& piece = room.pieces[at.piece % 2];
    if (at.left > 1 && piece.splits_of_sum > 1) return;
    const std::int64_t place = (piece.splits - at.left) / piece.splits_of_sum * piece.step;
    const float4 states = sums.folded_states;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t first = piece.sums[warp() * 16 + lane_group() + i * 8];
      if (first < 0) continue;
      float* to = args.begun_out + (first + place) * kDim + lane_pair() * 2;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        hopper::store_and_keep(to + j * 8, float2{sums.folded[j * 4 + i * 2], sums.folded[j * 4 + i * 2 + 1]});
      }
      if (lane_pair() == 0) {
        args.begun_states[first + place] =
            i == 0 ? SoftmaxState{states.x, states.y} : SoftmaxState{states.z, states.w};
      }
    }
    sums.clear();
  }
};

#endif

template <class Form, int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    attend_to_prefixes(const __grid_constant__ AttentionArgs args, const __grid_constant__ PrefixArgs prefixes,
                       const __grid_constant__ WideMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 memory[];
  auto& room = *room_for_boxes<Room<kDim>>(memory);
  make_ready<Form>(room);
  __syncthreads();
  Order::of_prefixes(args).begin();
  Order::of_prefixes(args).wait_for_rows();
  const QueryLoader<Form, kDim> loader{args, prefixes, room};
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp < kMultipliers * 4) {
    hopper::take_registers<kMultiplierRegisters>();
    loader.load_first(static_cast<int>(threadIdx.x));
    Multiplier<Form, kDim>{args, prefixes, room}.run();
  } else {
    hopper::give_up_registers<kOtherRegisters>();
    const Feeder<Form, kDim> feeder{args, prefixes, maps, room};
    if (warp == kMultipliers * 4) feeder.feed_keys();
    if (warp == kMultipliers * 4 + 1) feeder.feed_values();
    if (warp >= kMultipliers * 4 + 2) loader.run(static_cast<int>(threadIdx.x) - (kMultipliers * 4 + 2) * 32);
  }
  Order::of_prefixes(args).end();
#endif
}

template <class Form, int kDim>
void launch(const AttentionArgs& args, const PrefixArgs& prefixes, const WideMaps& maps, cudaStream_t stream) {
  const auto kernel = attend_to_prefixes<Form, kDim>;
  constexpr size_t kRoom = sizeof(Room<kDim>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const auto blocks = static_cast<unsigned>(blocks_for_pieces(prefixes.piece_count, args.processors));
  launch_early("attention to prefixes", kernel, {dim3(blocks), dim3(kThreads), kRoom}, stream, args, prefixes, maps);
}

}  // namespace
}  // namespace prefix

void prefix_attention(const AttentionArgs& args, const PrefixArgs& prefixes, cudaStream_t stream) {
  const KvLayout& layout = args.view.layout;
  if (prefixes.scales == nullptr) {
    return launch_half(layout, [&]<class Half, int kDim>(Number number) {
      prefix::launch<AsTheyLie<Half>, kDim>(args, prefixes, make_wide_maps(args.view, number), stream);
    });
  }
  const WideMaps maps = make_wide_maps(args.view, Number::kF16, prefixes.scales);  // boxes of bf16 are as large
  layout.shape.k_dim == 64 ? prefix::launch<WithScales, 64>(args, prefixes, maps, stream)
                           : prefix::launch<WithScales, 128>(args, prefixes, maps, stream);
}

}  // namespace kvasir::cuda
