#include "backend/cuda/runtime/pdl_launch.h"
#include "backend/cuda/sample/sample_rows.h"

namespace kvasir::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kBins = 2 * kThreads;
constexpr int kListed = 1024;  // tokens of one bin that are compared with each other

// Orders tokens as numbers, larger first: by logit, then by smaller token.
__device__ std::uint64_t rank_of(float logit, TokenId token) {
  const unsigned bits = __float_as_uint(logit + 0.0F);  // both zeros are equal
  const unsigned ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<std::uint64_t>(ordered) << 32 | (0xffffffffU - static_cast<unsigned>(token));
}

struct Listed {
  std::uint64_t rank;
  std::uint64_t amount;
};

struct Shared {
  std::uint64_t bins[kBins];
  Listed list[kListed];
  std::uint64_t sums[kWarps];
  double scores[kWarps];
  int tokens[kWarps];
  int listed;
  int bin;
  std::uint64_t before;  // in the bins before
  std::uint64_t cut;
};

// The sum over the CTA, in all threads.
__device__ std::uint64_t sum_of_cta(std::uint64_t value, Shared& shared) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0U, value, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared.sums[threadIdx.x / 32] = value;
  __syncthreads();
  std::uint64_t sum = 0;
  for (int i = 0; i < kWarps; ++i) sum += shared.sums[i];
  return sum;
}

// The sum over the threads before this one.
__device__ std::uint64_t sum_before(std::uint64_t value, Shared& shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  std::uint64_t sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const std::uint64_t other = __shfl_up_sync(~0U, sum, static_cast<unsigned>(step));
    if (lane >= step) sum += other;
  }
  __syncthreads();
  if (lane == 31) shared.sums[threadIdx.x / 32] = sum;
  __syncthreads();
  for (unsigned i = 0; i < threadIdx.x / 32; ++i) sum += shared.sums[i];
  return sum - value;
}

// The token of the highest score, of equals the smallest; -1: there is none.
__device__ TokenId best_of_cta(double score, TokenId token, Shared& shared) {
  const auto better = [](double a, TokenId x, double b, TokenId y) {
    if (x < 0 || y < 0) return y < 0 && x >= 0;
    return a != b ? a > b : x < y;
  };
  for (int step = 16; step > 0; step /= 2) {
    const double other = __shfl_xor_sync(~0U, score, step);
    const TokenId of = __shfl_xor_sync(~0U, token, step);
    if (better(other, of, score, token)) {
      score = other;
      token = of;
    }
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    shared.scores[threadIdx.x / 32] = score;
    shared.tokens[threadIdx.x / 32] = token;
  }
  __syncthreads();
  for (int i = 0; i < kWarps; ++i) {
    if (!better(shared.scores[i], shared.tokens[i], score, token)) continue;
    score = shared.scores[i];
    token = shared.tokens[i];
  }
  return token;
}

// A row's logits, and the cutoffs of the filters so far.
struct Candidates {
  const float* logits = nullptr;
  int vocab = 0;
  float temperature = 1.0F;
  float least = 0;        // smaller logits are out (min-p)
  float top = 0;          // the largest, over the temperature
  std::uint64_t cut = 0;  // smaller ranks are out

  // Calls visit(logit / temperature, token, rank) for every candidate.
  template <class Visit>
  __device__ void each(const Visit& visit) const {
    for (int i = static_cast<int>(threadIdx.x); i < vocab; i += kThreads) {
      const float logit = logits[i];
      if (!(logit >= least)) continue;
      const float value = __fdiv_rn(logit, temperature);
      const std::uint64_t rank = rank_of(value, i);
      if (rank >= cut) visit(value, i, rank);
    }
  }

  // Bins are narrow near the top, and never decrease for a smaller value.
  __device__ int bin_of(float value) const {
    const unsigned above = __float_as_uint(top - value + 1.0F) - __float_as_uint(1.0F);
    return static_cast<int>(min(above >> 15, static_cast<unsigned>(kBins - 1)));
  }
};

// Top-k counts tokens, top-p sums likelihoods: a token stays if the amount before it is below the limit.
struct Count {
  std::uint64_t most;
  __device__ std::uint64_t amount(float, float) const { return 1; }
  __device__ bool stays(std::uint64_t before, std::uint64_t) const { return before < most; }
};
struct Mass {
  float share;
  __device__ std::uint64_t amount(float value, float top) const { return likelihood(value, top); }
  __device__ bool stays(std::uint64_t before, std::uint64_t all) const {
    return before == 0 || static_cast<double>(before) < static_cast<double>(share) * static_cast<double>(all);
  }
};

// Bisects ranks, if a bin has too many tokens to compare them with each other.
template <class Rule>
__device__ std::uint64_t cut_by_halves(const Candidates& candidates, const Rule& rule, std::uint64_t all,
                                       Shared& shared) {
  std::uint64_t goes = 0;  // unless it stays as well
  std::uint64_t stays = ~0ULL;
  while (goes + 1 < stays) {
    const std::uint64_t middle = goes + (stays - goes) / 2;
    std::uint64_t before = 0;
    candidates.each([&](float value, TokenId, std::uint64_t rank) {
      if (rank > middle) before += rule.amount(value, candidates.top);
    });
    if (rule.stays(sum_of_cta(before, shared), all)) {
      stays = middle;
    } else {
      goes = middle;
    }
  }
  return stays;
}

// The rank of the last token that one more rule keeps.
template <class Rule>
__device__ std::uint64_t cut_by(const Candidates& candidates, const Rule& rule, Shared& shared) {
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) shared.bins[i] = 0;
  if (threadIdx.x == 0) {
    shared.listed = 0;
    shared.bin = -1;
    shared.cut = ~0ULL;
  }
  __syncthreads();
  candidates.each([&](float value, TokenId, std::uint64_t) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&shared.bins[candidates.bin_of(value)]),
              static_cast<unsigned long long>(rule.amount(value, candidates.top)));
  });
  __syncthreads();
  const std::uint64_t first = shared.bins[2 * threadIdx.x];
  const std::uint64_t second = shared.bins[2 * threadIdx.x + 1];
  const std::uint64_t all = sum_of_cta(first + second, shared);
  if (rule.stays(all, all)) return candidates.cut;  // all stay
  const std::uint64_t before = sum_before(first + second, shared);
  if (first > 0 && rule.stays(before, all)) atomicMax(&shared.bin, static_cast<int>(2 * threadIdx.x));
  if (second > 0 && rule.stays(before + first, all)) atomicMax(&shared.bin, static_cast<int>(2 * threadIdx.x + 1));
  __syncthreads();
  const int bin = shared.bin;  // of the last token that stays
  if (bin == static_cast<int>(2 * threadIdx.x)) shared.before = before;
  if (bin == static_cast<int>(2 * threadIdx.x + 1)) shared.before = before + first;
  candidates.each([&](float value, TokenId, std::uint64_t rank) {
    if (candidates.bin_of(value) != bin) return;
    const int at = atomicAdd(&shared.listed, 1);
    if (at < kListed) shared.list[at] = {rank, rule.amount(value, candidates.top)};
  });
  __syncthreads();
  const int count = shared.listed;
  if (count > kListed) return cut_by_halves(candidates, rule, all, shared);
  if (static_cast<int>(threadIdx.x) < count) {
    const Listed mine = shared.list[threadIdx.x];
    std::uint64_t ahead = shared.before;
    for (int i = 0; i < count; ++i) ahead += shared.list[i].rank > mine.rank ? shared.list[i].amount : 0;
    if (rule.stays(ahead, all)) {
      atomicMin(reinterpret_cast<unsigned long long*>(&shared.cut), static_cast<unsigned long long>(mine.rank));
    }
  }
  __syncthreads();
  return shared.cut;
}

static_assert(kListed == kThreads, "each thread looks at one of the list");

__global__ void __launch_bounds__(kThreads) sample_kernel(const SampleArgs rows) {
  __shared__ Shared shared;
  const SampleRule rule = rows.rules[blockIdx.x];
  TokenId* const on_host = *rows.on_host;
  pdl_wait();
  Candidates candidates;
  candidates.logits = rows.logits.data + blockIdx.x * rows.logits.stride;
  candidates.vocab = rows.logits.cols;

  float largest = -INFINITY;
  TokenId at = -1;
  bool wrong = false;
  constexpr int kAtOnce = 16;  // loads in flight: one at a time takes three times as long
  for (int first = static_cast<int>(threadIdx.x); first < candidates.vocab; first += kThreads * kAtOnce) {
    float some[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = first + j * kThreads;
      some[j] = i < candidates.vocab ? candidates.logits[i] : -INFINITY;
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      wrong = wrong || isnan(some[j]) || some[j] == INFINITY;
      if (!(some[j] > largest)) continue;
      largest = some[j];
      at = first + j * kThreads;
    }
  }
  const TokenId likeliest = best_of_cta(static_cast<double>(largest), at, shared);
  wrong = __syncthreads_or(static_cast<int>(wrong)) != 0;
  TokenId token = wrong ? -1 : likeliest;  // -1 too if all are -inf
  if (token >= 0 && rule.temperature > 0) {
    candidates.temperature = rule.temperature;
    candidates.least = __fadd_rn(candidates.logits[likeliest], rule.min_p_margin);
    candidates.top = __fdiv_rn(candidates.logits[likeliest], rule.temperature);
    if (rule.top_k > 0 && rule.top_k < candidates.vocab) {
      candidates.cut = cut_by(candidates, Count{static_cast<std::uint64_t>(rule.top_k)}, shared);
    }
    if (rule.top_p < 1.0F) candidates.cut = cut_by(candidates, Mass{rule.top_p}, shared);
    double best = -INFINITY;
    token = -1;
    candidates.each([&](float value, TokenId i, std::uint64_t) {
      const double score = static_cast<double>(value) + gumbel(rule.seed, rule.position, i);
      if (token >= 0 && !(score > best)) return;  // a thread's tokens ascend, so the smallest of equals wins
      best = score;
      token = i;
    });
    token = best_of_cta(best, token, shared);
  }
  if (threadIdx.x != 0) return;
  rows.tokens[blockIdx.x] = token;
  on_host[blockIdx.x] = token;
}

}  // namespace

void sample_rows(const SampleArgs& rows, cudaStream_t stream) {
  if (rows.logits.rows == 0) return;
  launch_pdl("sample_rows", sample_kernel, {dim3(static_cast<unsigned>(rows.logits.rows)), dim3(kThreads)}, stream,
             rows);
}

}  // namespace kvasir::cuda
