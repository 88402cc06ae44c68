// Instructions of a warpgroup on Hopper: wgmma with A in registers and B as it lies in the KV cache, named barriers,
// setmaxnreg.
#pragma once

#include "backend/cuda/arch/hopper.cuh"
#include "backend/cuda/arch/tensor_core.cuh"

namespace kvasir::cuda::hopper {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

inline constexpr int kWarpgroupThreads = 128;

// Named barrier: waits until `threads` threads have arrived. Number 0 is __syncthreads().
__device__ __forceinline__ void sync_named_barrier(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Changes the registers of each thread of the warpgroup.
template <int kCount>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Makes writes to shared memory visible to wgmma and TMA.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

struct TmaBox3d {
  const void* map;
  int at[3];
};
__device__ __forceinline__ void tma_load_3d(std::uint32_t to, const TmaBox3d& from, std::uint32_t barrier,
                                            std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(from.map), "r"(from.at[0]), "r"(from.at[1]), "r"(from.at[2]), "r"(barrier), "l"(policy)
      : "memory");
}

// Prefetches into L2.
__device__ __forceinline__ void tma_prefetch_3d(const TmaBox3d& from) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.L2::cache_hint [%0, {%1, %2, %3}], %4;" ::"l"(from.map),
               "r"(from.at[0]), "r"(from.at[1]), "r"(from.at[2]), "l"(kEvictFirst)
               : "memory");
}

// Stage and parity of the count-th tile that goes through a ring of kStages stages.
template <unsigned kStages>
struct RingSlot {
  unsigned count = 0;

  __device__ unsigned stage() const { return count % kStages; }
  __device__ unsigned parity() const { return count / kStages & 1U; }
  __device__ unsigned parity_before() const { return parity() ^ 1U; }
};

enum class Swizzle : std::uint64_t { kNone = 0, k128 = 1, k64 = 2, k32 = 3 };

// An MN-major matrix: its rows run along k and hold as many n side by side as the swizzle has bytes. The next n are
// `next_n` bytes further on, the next 8 rows `next_k` bytes.
struct RowsAlongK {
  Swizzle swizzle;
  std::uint32_t next_n, next_k;
};
__device__ __forceinline__ std::uint64_t matrix_descriptor(std::uint32_t at, RowsAlongK rows) {
  return static_cast<std::uint64_t>(rows.swizzle) << 62 | static_cast<std::uint64_t>(rows.next_k >> 4) << 32 |
         static_cast<std::uint64_t>(rows.next_n >> 4) << 16 | (at & 0x3FFFFU) >> 4;
}

// The descriptor of the matrix `bytes` further on. REQUIRES: it does not cross the end of shared memory.
__device__ __forceinline__ std::uint64_t advance_descriptor(std::uint64_t descriptor, std::uint32_t bytes) {
  const std::uint32_t low = static_cast<std::uint32_t>(descriptor) + (bytes >> 4);
  return descriptor >> 32 << 32 | low;
}

// A compiler barrier: no read or write of the values moves across it.
template <int kCount>
__device__ __forceinline__ void hold(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}
// Forces the weights, which are never negative, to be computed here. ptxas hoists a wait for wgmma above independent
// work, which would then not overlap; it does not hoist it over a branch.
template <int kCount>
__device__ __forceinline__ void settle(float (&weights)[kCount]) {
  do {
    hold(weights);
  } while (__any_sync(0xffffffff, weights[kCount - 1] < 0.0F));
}
template <int kSteps>
__device__ __forceinline__ void hold(std::uint32_t (&operands)[kSteps][4]) {
#pragma unroll
  for (int i = 0; i < kSteps * 4; ++i) asm volatile("" : "+r"(operands[i / 4][i % 4])::"memory");
}

#define KVASIR_D8(i)                                                                                          \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define KVASIR_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define KVASIR_D32(i) KVASIR_D8(i), KVASIR_D8(i + 8), KVASIR_D8(i + 16), KVASIR_D8(i + 24)
#define KVASIR_LIST(...) __VA_ARGS__
#define KVASIR_R8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define KVASIR_R16 KVASIR_R8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define KVASIR_R32                                                                                             \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28," \
  "%29,%30,%31"
#define KVASIR_R64                                                                                            \
  KVASIR_R32                                                                                                  \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57," \
  "%58,%59,%60,%61,%62,%63"

#define KVASIR_R36 KVASIR_R32 ",%32,%33,%34,%35"
#define KVASIR_R68 KVASIR_R64 ",%64,%65,%66,%67"

// One k step. `left`, `right` and `adds` name operands; KVASIR_TAIL says which sides are MN-major.
#define KVASIR_WGMMA(n, type, outputs, operands, left, right, adds, inputs)                                       \
  asm volatile("{.reg .pred adds;\nsetp.ne.b32 adds, " adds                                                       \
               ", 0;\n"                                                                                           \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" outputs "}, " left ", " right \
               ", adds, 1, 1, " KVASIR_TAIL ";}"                                                                  \
               : operands                                                                                         \
               : inputs)
#define KVASIR_IN_REGISTERS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds)
#define KVASIR_BY_TYPE(n, outputs, operands, left, right, adds, inputs)                              \
  if constexpr (std::is_same_v<Half, HalfF16>) {                                                     \
    KVASIR_WGMMA(n, "f16", outputs, KVASIR_LIST(operands), left, right, adds, KVASIR_LIST(inputs));  \
  } else {                                                                                           \
    KVASIR_WGMMA(n, "bf16", outputs, KVASIR_LIST(operands), left, right, adds, KVASIR_LIST(inputs)); \
  }

// d = a b over 16 k, or d += a b if `adds` is not 0. A has 64 rows, in each warp rows g and g + 8 as in
// tensor_core.cuh; b is MN-major.
template <class Half>
__device__ __forceinline__ void multiply_by_rows(float (&d)[64], const std::uint32_t (&a)[4], std::uint64_t b,
                                                 int adds) {
#define KVASIR_TAIL "1"
  KVASIR_BY_TYPE(128, KVASIR_R64, KVASIR_LIST(KVASIR_D32(0), KVASIR_D32(32)), "{%64,%65,%66,%67}", "%68", "%69",
                 KVASIR_LIST(KVASIR_IN_REGISTERS))
}
template <class Half>
__device__ __forceinline__ void multiply_by_rows(float (&d)[32], const std::uint32_t (&a)[4], std::uint64_t b,
                                                 int adds) {
  KVASIR_BY_TYPE(64, KVASIR_R32, KVASIR_LIST(KVASIR_D32(0)), "{%32,%33,%34,%35}", "%36", "%37",
                 KVASIR_LIST(KVASIR_IN_REGISTERS))
}
// With 8 more columns, which lie where the next columns of the swizzle would.
template <class Half>
__device__ __forceinline__ void multiply_by_rows(float (&d)[68], const std::uint32_t (&a)[4], std::uint64_t b,
                                                 int adds) {
  KVASIR_BY_TYPE(136, KVASIR_R68, KVASIR_LIST(KVASIR_D32(0), KVASIR_D32(32), KVASIR_D4(64)), "{%68,%69,%70,%71}",
                 "%72", "%73", KVASIR_LIST(KVASIR_IN_REGISTERS))
}
template <class Half>
__device__ __forceinline__ void multiply_by_rows(float (&d)[36], const std::uint32_t (&a)[4], std::uint64_t b,
                                                 int adds) {
  KVASIR_BY_TYPE(72, KVASIR_R36, KVASIR_LIST(KVASIR_D32(0), KVASIR_D4(32)), "{%36,%37,%38,%39}", "%40", "%41",
                 KVASIR_LIST(KVASIR_IN_REGISTERS))
#undef KVASIR_TAIL
}
// The same with a K-major b of 8 to 128 columns.
template <class Half>
__device__ __forceinline__ void multiply_by_columns(float (&d)[4], const std::uint32_t (&a)[4], std::uint64_t b,
                                                    int adds) {
#define KVASIR_TAIL "0"
  KVASIR_BY_TYPE(8, "%0,%1,%2,%3", KVASIR_LIST("+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])), "{%4,%5,%6,%7}", "%8",
                 "%9", KVASIR_LIST(KVASIR_IN_REGISTERS))
}
template <class Half>
__device__ __forceinline__ void multiply_by_columns(float (&d)[8], const std::uint32_t (&a)[4], std::uint64_t b,
                                                    int adds) {
  KVASIR_BY_TYPE(16, KVASIR_R8, KVASIR_LIST(KVASIR_D8(0)), "{%8,%9,%10,%11}", "%12", "%13",
                 KVASIR_LIST(KVASIR_IN_REGISTERS))
}
template <class Half>
__device__ __forceinline__ void multiply_by_columns(float (&d)[16], const std::uint32_t (&a)[4], std::uint64_t b,
                                                    int adds) {
  KVASIR_BY_TYPE(32, KVASIR_R16, KVASIR_LIST(KVASIR_D8(0), KVASIR_D8(8)), "{%16,%17,%18,%19}", "%20", "%21",
                 KVASIR_LIST(KVASIR_IN_REGISTERS))
}
template <class Half>
__device__ __forceinline__ void multiply_by_columns(float (&d)[32], const std::uint32_t (&a)[4], std::uint64_t b,
                                                    int adds) {
  KVASIR_BY_TYPE(64, KVASIR_R32, KVASIR_LIST(KVASIR_D32(0)), "{%32,%33,%34,%35}", "%36", "%37",
                 KVASIR_LIST(KVASIR_IN_REGISTERS))
}
template <class Half>
__device__ __forceinline__ void multiply_by_columns(float (&d)[64], const std::uint32_t (&a)[4], std::uint64_t b,
                                                    int adds) {
  KVASIR_BY_TYPE(128, KVASIR_R64, KVASIR_LIST(KVASIR_D32(0), KVASIR_D32(32)), "{%64,%65,%66,%67}", "%68", "%69",
                 KVASIR_LIST(KVASIR_IN_REGISTERS))
#undef KVASIR_TAIL
}

#undef KVASIR_BY_TYPE
#undef KVASIR_IN_REGISTERS
#undef KVASIR_WGMMA
#undef KVASIR_R68
#undef KVASIR_R64
#undef KVASIR_R36
#undef KVASIR_R32
#undef KVASIR_R16
#undef KVASIR_R8
#undef KVASIR_LIST
#undef KVASIR_D32
#undef KVASIR_D4
#undef KVASIR_D8

#endif

}  // namespace kvasir::cuda::hopper
