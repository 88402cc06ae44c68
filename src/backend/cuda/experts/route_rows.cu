// Which experts each row goes to, and how pairs are sorted by expert. The rules are those of backend/router.cpp.
#include <algorithm>

#include "backend/cuda/experts/expert_args.h"
#include "backend/cuda/ops/warp_rows.cuh"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

// A row's numbers in shared memory, of one warp.
struct RouterSmem {
  float* scores;         // [experts]
  float* ranked;         // [experts]: scores as they choose
  float* best;           // [groups]
  unsigned char* taken;  // [experts]; of groups, before: whether they are out of the question

  __device__ RouterSmem(float* at, int experts, int groups)
      : scores(at),
        ranked(scores + experts),
        best(ranked + experts),
        taken(reinterpret_cast<unsigned char*>(best + groups)) {}
};

size_t smem_bytes(int experts, int groups) {
  return sizeof(float) * static_cast<size_t>(2 * experts + groups) + static_cast<size_t>(experts);
}

__device__ int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }

__device__ void softmax(float* values, int count) {
  float top = -INFINITY;
  for (int i = lane_of_warp(); i < count; i += 32) top = fmaxf(top, values[i]);
  top = warp_max(top);
  float sum = 0;
  for (int i = lane_of_warp(); i < count; i += 32) {
    values[i] = expf(__fsub_rn(values[i], top));
    sum = __fadd_rn(sum, values[i]);
  }
  sum = warp_sum(sum);
  for (int i = lane_of_warp(); i < count; i += 32) values[i] = __fdiv_rn(values[i], sum);
  __syncwarp();
}

// Whether a comes before b: the larger number, and of equal ones the lower index. What is no number comes last, and
// index -1, which is none, behind all.
__device__ bool comes_before(float a, int at_a, float b, int at_b) {
  if (at_a < 0 || at_b < 0) return at_a >= 0 && at_b < 0;
  if (isnan(a) || isnan(b)) return !isnan(a) || (isnan(b) && at_a < at_b);
  return a > b || (a == b && at_a < at_b);
}

// Leaves groups out that are not among the best.
__device__ void leave_out_groups(const RouterRule& rule, int experts, const RouterSmem& smem) {
  const int size = experts / rule.groups;
  for (int g = lane_of_warp(); g < rule.groups; g += 32) {
    float first = -INFINITY;
    float second = -INFINITY;
    for (int i = g * size; i < (g + 1) * size; ++i) {
      const float value = smem.ranked[i];
      if (value > first) {
        second = first;
        first = value;
      } else if (value > second) {
        second = value;
      }
    }
    const bool two = rule.group_score == RouterRule::GroupScore::kTopTwo && size > 1;
    smem.best[g] = two ? __fadd_rn(first, second) : first;
  }
  __syncwarp();
  for (int g = lane_of_warp(); g < rule.groups; g += 32) {
    int before = 0;
    for (int other = 0; other < rule.groups; ++other) {
      before += other != g && comes_before(smem.best[other], other, smem.best[g], g);
    }
    smem.taken[g] = before >= rule.used_groups;
  }
  __syncwarp();
  for (int i = lane_of_warp(); i < experts; i += 32) {
    if (smem.taken[i / size] != 0) smem.ranked[i] = -INFINITY;
  }
  __syncwarp();
}

// The best expert that is not taken, in all lanes. It is taken then.
__device__ int take_best(int experts, const RouterSmem& smem) {
  int best = -1;
  float of_best = 0;
  for (int i = lane_of_warp(); i < experts; i += 32) {
    if (smem.taken[i] != 0 || !comes_before(smem.ranked[i], i, of_best, best)) continue;
    best = i;
    of_best = smem.ranked[i];
  }
  for (int step = 16; step > 0; step /= 2) {
    const int other = __shfl_xor_sync(kAllLanes, best, step);
    const float of_other = __shfl_xor_sync(kAllLanes, of_best, step);
    if (!comes_before(of_other, other, of_best, best)) continue;
    best = other;
    of_best = of_other;
  }
  if (lane_of_warp() == 0) smem.taken[best] = 1;
  __syncwarp();
  return best;
}

// Scores of the chosen become weights, by one lane.
__device__ void finish_weights(const RouterRule& rule, const int* chosen, float* weights) {
  if (rule.score == RouterRule::Score::kSoftmaxOfChosen) {
    float top = -INFINITY;
    for (int k = 0; k < rule.used; ++k) top = fmaxf(top, weights[k]);
    float sum = 0;
    for (int k = 0; k < rule.used; ++k) sum = __fadd_rn(sum, weights[k] = expf(__fsub_rn(weights[k], top)));
    for (int k = 0; k < rule.used; ++k) weights[k] = __fdiv_rn(weights[k], sum);
  }
  float sum = 1e-20F;  // sigmoids may all be nothing
  for (int k = 0; k < rule.used; ++k) sum = __fadd_rn(sum, weights[k]);
  for (int k = 0; k < rule.used; ++k) {
    float weight = rule.normalized ? __fdiv_rn(weights[k], sum) : weights[k];
    weight = __fmul_rn(weight, rule.scale);
    weights[k] = rule.expert_scale == nullptr ? weight : __fmul_rn(weight, rule.expert_scale[chosen[k]]);
  }
}

// A warp for each row.
__global__ void route(Matrix logits, RouterRule rule, int* expert_of, float* weight_of) {
  extern __shared__ float memory[];
  pdl_trigger();
  pdl_wait();
  const int experts = logits.cols;
  const RouterSmem smem(memory, experts, rule.groups);
  const float* row = logits.data + blockIdx.x * logits.stride;
  for (int i = lane_of_warp(); i < experts; i += 32) {
    const float x = row[i];
    smem.scores[i] = rule.score == RouterRule::Score::kSigmoid ? __fdiv_rn(1.0F, __fadd_rn(1.0F, expf(-x))) : x;
  }
  __syncwarp();
  if (rule.score == RouterRule::Score::kSoftmax) softmax(smem.scores, experts);
  for (int i = lane_of_warp(); i < experts; i += 32) {
    smem.ranked[i] = rule.choice_bias == nullptr ? smem.scores[i] : __fadd_rn(smem.scores[i], rule.choice_bias[i]);
  }
  __syncwarp();
  if (rule.groups > 1) leave_out_groups(rule, experts, smem);
  for (int i = lane_of_warp(); i < experts; i += 32) smem.taken[i] = 0;
  __syncwarp();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * rule.used;
  for (int k = 0; k < rule.used; ++k) {
    const int best = take_best(experts, smem);
    if (lane_of_warp() != 0) continue;
    expert_of[first + k] = best;
    weight_of[first + k] = smem.scores[best];
  }
  if (lane_of_warp() == 0) finish_weights(rule, expert_of + first, weight_of + first);
}

constexpr int kGroupThreads = 512;

// The sum of the lanes before this one.
__device__ int sum_before(int value, int& all) {
  int end = value;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, end, step);
    if (lane_of_warp() >= step) end += other;
  }
  all = __shfl_sync(kAllLanes, end, 31);
  return end - value;
}

// By one warp: counts of experts become the first place of each, and its tiles are listed.
__device__ void list_tiles(const RoutedPairs& pairs, int* counts) {
  int places = 0;
  int tiles = 0;
  for (int first = 0; first < pairs.experts; first += 32) {
    const int expert = first + lane_of_warp();
    const int count = expert < pairs.experts ? counts[expert] : 0;
    const int own = (count + pairs.rows_of_tile - 1) / pairs.rows_of_tile;
    int all_places = 0;
    int all_tiles = 0;
    const int place = places + sum_before(count, all_places);
    const int tile = tiles + sum_before(own, all_tiles);
    for (int i = 0; i < own; ++i) {
      const int done = i * pairs.rows_of_tile;
      pairs.tiles[tile + i] = {expert, place + done, min(pairs.rows_of_tile, count - done)};
    }
    if (expert < pairs.experts) counts[expert] = place;
    places += all_places;
    tiles += all_tiles;
  }
  if (lane_of_warp() == 0) *pairs.tile_count = tiles;
}

// One CTA sorts all pairs.
__global__ void __launch_bounds__(kGroupThreads) group(const RoutedPairs pairs) {
  extern __shared__ int places[];  // [experts]: how many pairs, then where the next one goes
  pdl_trigger();
  pdl_wait();
  for (int i = static_cast<int>(threadIdx.x); i < pairs.experts; i += kGroupThreads) places[i] = 0;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < pairs.pairs; i += kGroupThreads) {
    atomicAdd(&places[pairs.expert_of[i]], 1);
  }
  __syncthreads();
  if (threadIdx.x < 32) list_tiles(pairs, places);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < pairs.pairs; i += kGroupThreads) {
    const int place = atomicAdd(&places[pairs.expert_of[i]], 1);
    pairs.place_of[i] = place;
    pairs.pair_at[place] = i;
  }
}

}  // namespace

void route_rows(Matrix logits, const RouterRule& rule, const RoutedPairs& to, cudaStream_t stream) {
  const size_t bytes = smem_bytes(logits.cols, rule.groups);
  constexpr size_t kWithoutAsking = size_t{48} << 10;
  if (bytes > kWithoutAsking) {
    check(cudaFuncSetAttribute(route, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "the router's shared memory");
  }
  launch_pdl("route", route, {dim3(static_cast<unsigned>(logits.rows)), dim3(32), bytes}, stream, logits, rule,
             to.expert_of, to.weight_of);
}

void group_pairs(const RoutedPairs& pairs, cudaStream_t stream) {
  launch_pdl("group pairs", group, {dim3(1), dim3(kGroupThreads), sizeof(int) * static_cast<size_t>(pairs.experts)},
             stream, pairs);
}

}  // namespace kvasir::cuda
