// Instructions of Hopper: mbarriers, TMA and bulk copies, clusters, wgmma with both operands in shared memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace kvasir::cuda::hopper {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

__device__ __forceinline__ void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialized barriers visible to TMA and to the other CTAs of the cluster.
__device__ __forceinline__ void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void arrive_and_expect(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrives at the barrier at the same address in CTA `cta` of the cluster.
__device__ __forceinline__ void arrive_at(std::uint32_t barrier, std::uint32_t cta) {
  asm volatile(
      "{.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];}"
      ::"r"(barrier), "r"(cta) : "memory");
}

__device__ __forceinline__ void wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;}"
      ::"r"(barrier), "r"(parity) : "memory");
}

// Waits for data that another CTA of the cluster wrote.
__device__ __forceinline__ void wait_for_cta(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;}"
      ::"r"(barrier), "r"(parity) : "memory");
}

// L2 policies: weights are read once, activations by every CTA.
inline constexpr std::uint64_t kEvictFirst = 0x12F0000000000000ULL;
inline constexpr std::uint64_t kEvictLast = 0x14F0000000000000ULL;

// Stores partials, which another kernel reads soon, so that L2 keeps them.
__device__ __forceinline__ void store_evict_last(float* to, float one) {
  asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(to), "f"(one), "l"(kEvictLast) : "memory");
}
__device__ __forceinline__ void store_evict_last(float* to, float2 two) {
  asm volatile("st.global.L2::cache_hint.v2.f32 [%0], {%1, %2}, %3;"
               ::"l"(to), "f"(two.x), "f"(two.y), "l"(kEvictLast) : "memory");
}
__device__ __forceinline__ void store_evict_last(float* to, float4 four) {
  asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;"
               ::"l"(to), "f"(four.x), "f"(four.y), "f"(four.z), "f"(four.w), "l"(kEvictLast) : "memory");
}

// Fetches the tensor map, which every TMA copy reads first.
__device__ __forceinline__ void prefetch_tensor_map(const void* map) {
  if (threadIdx.x == 0) asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

struct TmaBox {
  const void* map;
  int col;
  int row;
};

__device__ __forceinline__ void tma_load(std::uint32_t to, TmaBox from, std::uint32_t barrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5;"
      ::"r"(to), "l"(from.map), "r"(from.col), "r"(from.row), "r"(barrier), "l"(policy) : "memory");
}

// Prefetches into L2.
__device__ __forceinline__ void tma_prefetch(TmaBox from) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.L2::cache_hint [%0, {%1, %2}], %3;" ::"l"(from.map),
               "r"(from.col), "r"(from.row), "l"(kEvictFirst)
               : "memory");
}

// Copies bytes without a tensor map. REQUIRES: addresses and size are multiples of 16.
__device__ __forceinline__ void bulk_load(std::uint32_t to, const void* from, std::uint32_t bytes,
                                           std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
      ::"r"(to), "l"(from), "r"(bytes), "r"(barrier), "l"(kEvictFirst) : "memory");
}

__device__ __forceinline__ void bulk_prefetch(const void* from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(from), "r"(bytes),
               "l"(kEvictFirst)
               : "memory");
}

// Copies to the same address in every CTA of the mask.
__device__ __forceinline__ void tma_load_multicast(std::uint32_t to, TmaBox from, std::uint32_t barrier,
                                                std::uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5, %6;"
      ::"r"(to), "l"(from.map), "r"(from.col), "r"(from.row), "r"(barrier), "h"(mask), "l"(kEvictLast) : "memory");
}

__device__ __forceinline__ std::uint32_t cta_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ std::uint32_t cluster_size() {
  std::uint32_t count;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return count;
}

__device__ __forceinline__ void arrive_in_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ void sync_cluster() {
  arrive_in_cluster();
  wait_for_cluster();
}

// The address of the same shared memory in CTA `cta` of the cluster.
__device__ __forceinline__ std::uint32_t address_in_cta(std::uint32_t at, std::uint32_t cta) {
  std::uint32_t out;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(out) : "r"(at), "r"(cta));
  return out;
}
// Stores into another CTA, whose barrier counts the arriving bytes. Addresses come from address_in_cta().
__device__ __forceinline__ void store_async(std::uint32_t to, float number, std::uint32_t barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];"
               ::"r"(to), "f"(number), "r"(barrier) : "memory");
}
__device__ __forceinline__ void store_async(std::uint32_t to, float2 two, std::uint32_t barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];"
               ::"r"(to), "f"(two.x), "f"(two.y), "r"(barrier) : "memory");
}

// A K-major matrix: rows of 128 bytes, swizzled, in groups of 8 rows.
__device__ __forceinline__ std::uint64_t matrix_descriptor(std::uint32_t at) {
  constexpr std::uint64_t kSwizzle128 = 1ULL << 62;
  constexpr std::uint64_t kGroupBytes = 1024;
  return kSwizzle128 | (kGroupBytes >> 4) << 32 | 1ULL << 16 | (at & 0x3FFFFU) >> 4;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// One k step for n outputs; the accumulators are operands 0 to n / 2 - 1.
#define KVASIR_WGMMA(n, type, accumulators, operands, a_at, b_at)                             \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" accumulators \
               "}, " a_at ", " b_at ", 1, 1, 1, 0, 0;"                                          \
               : operands                                                                     \
               : "l"(a), "l"(b))
#define KVASIR_D8(i)                                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define KVASIR_LIST(...) __VA_ARGS__
#define KVASIR_R8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define KVASIR_R16 KVASIR_R8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define KVASIR_R24 KVASIR_R16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define KVASIR_R32 KVASIR_R24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define KVASIR_R56                                                                                \
  KVASIR_R32                                                                                      \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55"
#define KVASIR_WGMMA_N16(type) KVASIR_WGMMA(16, type, KVASIR_R8, KVASIR_LIST(KVASIR_D8(0)), "%8", "%9")
#define KVASIR_WGMMA_N32(type) \
  KVASIR_WGMMA(32, type, KVASIR_R16, KVASIR_LIST(KVASIR_D8(0), KVASIR_D8(8)), "%16", "%17")
#define KVASIR_WGMMA_N48(type) \
  KVASIR_WGMMA(48, type, KVASIR_R24, KVASIR_LIST(KVASIR_D8(0), KVASIR_D8(8), KVASIR_D8(16)), "%24", "%25")
#define KVASIR_WGMMA_N64(type)                                                                                 \
  KVASIR_WGMMA(64, type, KVASIR_R32, KVASIR_LIST(KVASIR_D8(0), KVASIR_D8(8), KVASIR_D8(16), KVASIR_D8(24)), "%32", \
               "%33")
#define KVASIR_WGMMA_N112(type)                                                                               \
  KVASIR_WGMMA(112, type, KVASIR_R56,                                                                         \
               KVASIR_LIST(KVASIR_D8(0), KVASIR_D8(8), KVASIR_D8(16), KVASIR_D8(24), KVASIR_D8(32), KVASIR_D8(40), \
                           KVASIR_D8(48)),                                                                    \
               "%56", "%57")
#define KVASIR_WGMMA_OF(n)                  \
  if constexpr (std::is_same_v<T, __half>) { \
    KVASIR_WGMMA_N##n("f16");               \
  } else {                                  \
    KVASIR_WGMMA_N##n("bf16");              \
  }

// d += a b over 16 k: a is 64 rows, b kTile outputs, both K-major in shared memory.
template <class T, int kTile>
__device__ __forceinline__ void wgmma(float (&d)[kTile / 2], std::uint64_t a, std::uint64_t b) {
  static_assert(kTile == 16 || kTile == 32 || kTile == 48 || kTile == 64 || kTile == 112);
  if constexpr (kTile == 16) {
    KVASIR_WGMMA_OF(16)
  } else if constexpr (kTile == 32) {
    KVASIR_WGMMA_OF(32)
  } else if constexpr (kTile == 48) {
    KVASIR_WGMMA_OF(48)
  } else if constexpr (kTile == 64) {
    KVASIR_WGMMA_OF(64)
  } else {
    KVASIR_WGMMA_OF(112)
  }
}

#undef KVASIR_WGMMA_OF
#undef KVASIR_WGMMA_N112
#undef KVASIR_WGMMA_N64
#undef KVASIR_WGMMA_N48
#undef KVASIR_WGMMA_N32
#undef KVASIR_WGMMA_N16
#undef KVASIR_R56
#undef KVASIR_R32
#undef KVASIR_R24
#undef KVASIR_R16
#undef KVASIR_R8
#undef KVASIR_LIST
#undef KVASIR_D8
#undef KVASIR_WGMMA

#endif

}  // namespace kvasir::cuda::hopper
