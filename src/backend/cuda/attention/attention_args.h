// The arguments of attention kernels, passed by value, and the work that a batch is partitioned into.
//
// A tile is up to 8 query rows: the query heads of one KV head, for one or more neighbouring tokens of a sequence.
// The context is split at fixed positions into chunks of kChunkTokens keys; inside a chunk, softmax runs over
// kTileTokens keys at a time. kGroupChunks chunks are a chunk group. The partials of chunks merge in order into that
// of their group, and those of groups, in order, into the result. All of that depends on the row and its keys alone,
// so no bit depends on the kernel, on the rest of the batch or on the number of SMs. A chunk or group of which a row
// sees nothing adds nothing, and may be left out.
#pragma once

#include <vector_types.h>

#include <cstdint>

#include "backend/cuda/ops/cast_rows.h"
#include "backend/tensor.h"
#include "layout/kv_view.h"
#include "layout/softmax_state.h"

namespace kvasir::cuda {

inline constexpr int kTileRows = 8;
inline constexpr int kTileTokens = 64;
inline constexpr int kChunkTokens = 256;
inline constexpr int kGroupChunks = 8;
KVASIR_HD constexpr int groups_of(int chunks) { return (chunks + kGroupChunks - 1) / kGroupChunks; }
inline constexpr int kBlockOfTile = 16;  // tokens of a block in shared memory, whose K, and whose V, are contiguous

// Partials over the prefix that a sequence shares with others, in AttentionArgs::prefix_out. Each covers `chunks`
// chunks, 1 or kGroupChunks; the last one may cover fewer.
struct PrefixPartials {
  int count = 0;  // 0: the sequence shares no prefix
  int chunks = 1;
  std::int64_t at = 0;    // index of the first one, of head 0 of a token
  std::int64_t step = 0;  // to the next one of the same row; heads are contiguous, then tokens
};

// Rows of the tile may see the chunks [0, sink_chunks) and [first_chunk, end_chunk).
struct AttentionTile {
  int sequence = 0;
  int first_token = 0;  // among the sequence's rows
  int tokens = 0;
  int first_head = 0;  // among the query heads of a KV head; not 0 if these are more than kTileRows
  int sink_chunks = 0;
  int first_chunk = 0;
  int end_chunk = 0;
  int first_item = 0;         // chunks of all tiles before this one
  int first_chunk_group = 0;  // chunk groups of all tiles before this one
  PrefixPartials prefix;      // over the keys before first_chunk

  KVASIR_HD int chunks() const { return sink_chunks + end_chunk - first_chunk; }
  KVASIR_HD int chunk_at(int index) const { return index < sink_chunks ? index : first_chunk + index - sink_chunks; }
};

inline constexpr int kPrefillRows = 128;

// The query rows of a CTA of wgmma.cu: neighbouring tokens of one sequence, each with the heads of a tile, up to
// kPrefillRows rows.
struct PrefillTile {
  const BlockId* blocks = nullptr;  // device memory, of the sequence
  Position query = 0;               // position of its first token
  int row = 0;                      // of the batch, of its first token
  int tokens = 0;
  int after = 0;                // see WorkItem
  std::int16_t first_head = 0;  // see AttentionTile, as the members below
  int sink_chunks = 0;
  int first_chunk = 0;
  int end_chunk = 0;

  KVASIR_HD int chunks() const { return sink_chunks + end_chunk - first_chunk; }
  KVASIR_HD int chunk_at(int index) const { return index < sink_chunks ? index : first_chunk + index - sink_chunks; }
};

inline constexpr int kCohortRows = 128;

// Tokens of sequences that share a prefix and read it together: each with all query heads of a KV head, up to
// kCohortRows rows in all.
struct PrefixCohort {
  const BlockId* blocks = nullptr;  // device memory
  int first = 0;                    // index in PrefixArgs::rows
  int tokens = 0;
  PrefixPartials sums;  // of its first token
};

// The work of a CTA of shared_prefix.cu: chunks that all tokens of a cohort read, for one KV head. They are a chunk
// group, with one partial, or fewer chunks with a partial each.
struct PrefixWorkItem {
  int cohort = 0;
  int kv_head = 0;
  int first_chunk = 0;
  int chunks = 0;
};

// The work of a warp of a decode kernel: one chunk of one tile. It holds all that is needed to begin, since it is
// prefetched.
struct alignas(16) WorkItem {
  const BlockId* blocks = nullptr;  // device memory, of the sequence
  Position query = 0;               // position of the tile's first token
  int first_key = 0;                // of the chunk, in units of kChunkTokens
  int row = 0;                      // of the batch, of the tile's first token
  std::int16_t tokens = 0;
  std::int16_t first_head = 0;
  int after = 0;  // rows of the sequence from the tile's first token on: no key after them was written
};

// Neighbouring items: the chunks of a group that a tile sees.
struct alignas(8) ChunkGroup {
  int first_item = 0;
  int chunks = 0;
};

// Warps of a CTA of tma.cu. Shared memory and registers hold 8, or 7 with heads of 128; 6 are as fast with many
// chunks and finish closer together with few.
constexpr int warps_of_tma(int dim) { return dim == 64 ? 8 : 6; }

// Warps that share the rows of a CTA, by bits a number: 16, 8, and 4 or 2.
inline constexpr int kWarpsOfRows = 4;
inline constexpr int kWarpsOfByteRows = 8;
inline constexpr int kWarpsOfInt4Rows = 16;
constexpr int warps_of_scaled_rows(KvFormat format) {
  return format == KvFormat::kInt4 || format == KvFormat::kInt2 ? kWarpsOfInt4Rows : kWarpsOfByteRows;
}
// Rows whose partials fit into the shared memory of so many warps.
KVASIR_HD constexpr int rows_at_once(int warps) { return warps > kWarpsOfByteRows ? kWarpsOfRows : warps; }

// The chunk groups of a row that each of its CTAs takes; the last CTA takes the rest.
inline constexpr int kMostGroupsOfCta = 16;
KVASIR_HD constexpr int groups_of_cta(int chunks, int ctas) { return (groups_of(chunks) + ctas - 1) / ctas; }

// Row `row` of a tile is query head first_head + row % heads_of_tile of token first_token + row / heads_of_tile.
// Pointers are to device memory.
struct AttentionArgs {
  int sm_count = 0;
  KvView view;
  const SequenceView* sequences = nullptr;  // with their block tables
  const AttentionTile* tiles = nullptr;
  int tile_count = 0;
  int first_item = 0;               // of the first tile
  const WorkItem* items = nullptr;  // of all tiles, one after the other
  int item_count = 0;
  const TreePath* paths = nullptr;           // [rows], where the batch has trees: generic.cu alone knows them
  const ChunkGroup* chunk_groups = nullptr;  // of all tiles of the batch, one after the other
  int first_chunk_group = 0;                 // of the first tile
  int chunk_group_count = 0;
  bool merges_chunk_groups = false;  // a group has one partial, at its last item, instead of one a chunk
  // A tile each, for kernels that merge whole rows; first_key is the number of chunks.
  const WorkItem* whole_rows = nullptr;
  bool pops_last_rows = false;                 // rows of the last round go to the CTAs that ask first (RowScheduler)
  int ctas_per_row = 1;                        // a cluster, if more than 1
  bool loads_before_pdl_wait = false;          // no kernel of the batch writes keys before the queries'
  const PrefillTile* prefill_tiles = nullptr;  // instead of tiles, for many rows
  int prefill_tile_count = 0;
  int* ticket_counter = nullptr;  // 0 between launches: counts items, times KV heads, that warps took
  int prefix_item_count = 0;      // of the shared-prefix kernel that runs beside this one (PdlOrder)
  int reserved_items = 0;         // the last items, times KV heads, are left to the CTAs …
  unsigned prefix_ctas = 0;       // … from this one on, whose SMs run no CTA of that kernel
  int heads_per_kv = 0;
  int first_kv_head = 0;  // of the queries: `view`'s first one. Not 0 where prefill runs by some heads at a time
  int heads_of_tile = 0;  // query heads of a KV head in a tile
  int most_rows = 0;      // of any tile
  float scale = 1.0F;     // of scores; includes log2(e), since softmax uses powers of two
  Matrix queries;         // [rows][heads * k_dim], float32; rows of queries and out are aligned to 8 bytes
  const std::uint16_t* q = nullptr;  // [rows][heads][k_stride], cast for the tensor cores
  const float* q_scales = nullptr;   // [rows][heads]; null: 1
  int k_stride = 0;
  Matrix out;                              // [rows][heads * v_dim]
  GemmInput also;                          // gets out as well
  SoftmaxState* states = nullptr;          // [rows][heads], or null
  float* partial_out = nullptr;            // [items][KV heads][kTileRows][v_stride]
  SoftmaxState* partial_states = nullptr;  // [items][KV heads][kTileRows]; m is for powers of two
  // Partials over shared prefixes, see PrefixPartials.
  float* prefix_out = nullptr;  // [partials][v_stride]
  SoftmaxState* prefix_states = nullptr;
  int v_stride = 0;
  bool hadamard_out = false;  // outputs are rotated by hadamard() in the epilogue
};

// Shared prefixes of a batch. Pointers are to device memory.
struct PrefixArgs {
  const PrefixCohort* cohorts = nullptr;
  const PrefixWorkItem* items = nullptr;
  int prefix_item_count = 0;
  const int* rows = nullptr;      // of the batch
  const float* scales = nullptr;  // of dequantized blocks, if they have scales (dequant_kv.h)
};

}  // namespace kvasir::cuda
