// The cpu's kernels as tables of function pointers, one table an instruction set, chosen once.
//
// All tables compute the same bits: sums that run across a row go through 16 virtual lanes, whatever the machine's
// width; products and sums are fused; everything else is one lane an output.
#pragma once

#include <array>
#include <cstdint>

#include "backend/activation_function.h"
#include "backend/activation_precision.h"
#include "backend/cpu/isa.h"
#include "backend/ops.h"
#include "backend/quant/int8_rows.h"
#include "backend/tensor.h"
#include "layout/kv_view.h"
#include "layout/softmax_state.h"

namespace kvasir::cpu {

inline constexpr int kLanes = 16;  // outputs of a weight panel, tokens of a key tile, virtual lanes of a sum

// --- matmul
// ---------------------------------------------------------------------------------------------------------

inline constexpr int kMaxRowTile = 12;

// Neighbouring inputs that lie together, and the bytes they take in a panel of weights or in one row of a tile.
struct Groups {
  int inputs = 1;
  int bytes = 0;

  std::int64_t bytes_for(int count) const { return static_cast<std::int64_t>(groups_of(count)) * bytes; }
  int groups_of(int count) const { return (count + inputs - 1) / inputs; }
};

// 32 inputs of a row as a tile of quantized weights takes them: what can be computed once for all outputs is. Sums of
// products start from `starts`: the kernel's `zero` taken off each code.
struct alignas(16) Int8Part {          // 48 bytes: with 44, rows beside q8_0 take 2% longer
  std::int32_t quads[kInt8Block / 4];  // four q each
  std::int32_t starts[1];
  float scale;
  float scaled_sum;  // scale times the sum of q: what an offset of the weights is multiplied with
};

// Likewise 32 of a group.
struct Int8GroupPart {
  std::int32_t quads[kInt8Block / 4];
  std::int32_t starts[2];  // of each half; of weights with one scale for both, the first
  std::int32_t shift;
  // Sums of q 2^shift, one below the other: of the two halves; of weights with one scale for both, of this part and
  // the next, and of every second part alone.
  std::int32_t sum_pair;
  float unit;
};

// How the rows of a tile are stored.
enum class RowForm : std::uint8_t {
  kF32,         // as they are
  kEvenF32,     // and one zero more where the inputs are odd
  kRoundedF32,  // rounded to bf16, likewise even
  kBf16Pairs,   // rounded to bf16, two inputs in 32 bits, the first below
  kInt8,        // Int8Parts
  kInt8Groups,  // Int8GroupParts
  kInt8Halves,  // Int8GroupParts for weights with a scale for 16 inputs
};

constexpr bool is_int8(RowForm form) { return form >= RowForm::kInt8; }

constexpr Groups row_groups(RowForm form) {
  switch (form) {
    case RowForm::kF32:
      return {1, 4};
    case RowForm::kEvenF32:
    case RowForm::kRoundedF32:
      return {2, 8};
    case RowForm::kBf16Pairs:
      return {2, 4};
    case RowForm::kInt8:
      return {kInt8Block, sizeof(Int8Part)};
    case RowForm::kInt8Groups:
    case RowForm::kInt8Halves:
      return {kInt8Block, sizeof(Int8GroupPart)};
  }
  return {};
}

// A few rows times a few panels, over a range of inputs.
// Every output is one chain of fused multiply-adds along the inputs, however the ranges are cut: of f32 and f16 in
// their order; of bf16 pair by pair, in each pair the second input first, as the hardware's dot products do it; of
// quantized weights part by part, or of *_k types group by group, a part being an exact sum of integers; of fp8 as
// of the float32 numbers that its codes and scales make.
struct MatmulTile {
  const std::byte* weights = nullptr;  // first panel, first input of the range: [inputs / group][16][group]
  std::int64_t panel_bytes = 0;        // between panels
  const std::byte* x = nullptr;        // [inputs / group][x_stride][group], row r of the tile in column r
  int x_stride = 0;
  int inputs = 0;  // of the range
  int rows = 0;    // 1 … row_tile
  int panels = 0;  // 1 or panels_at_once[rows]
  float* out = nullptr;
  std::int64_t out_stride = 0;
  int columns = 0;      // valid outputs in these panels
  bool resume = false;  // go on from what out holds
  // What comes next is asked for on the way, by kernels of quantized weights: of each panel `ahead_step` bytes from
  // here on for every 32 inputs. 0: nothing.
  const std::byte* ahead = nullptr;
  int ahead_step = 0;
};

// Panels as many rows meet them, where that is not as they lie in memory: what each tile of rows would do again
// (codes out of their bits) is done once for all of them.
struct SpreadPanels {
  Groups groups;                                                                // in a spread panel
  void (*spread)(const std::byte* panel, int inputs, std::byte* to) = nullptr;  // none: for no number of rows
  void (*tile)(const MatmulTile&) = nullptr;                                    // over spread panels: the same bits
};

inline constexpr int kOwnZeros = -1;  // that is another number for each output: starts are the sums of a row's q

struct MatmulKernel {
  void (*tile)(const MatmulTile&) = nullptr;  // none: this type cannot be computed
  RowForm form = RowForm::kF32;               // of the rows it takes
  int row_tile = 1;                           // rows that one call can take
  int panels_at_once[kMaxRowTile + 1] = {};   // by rows
  int zero = 0;                               // of integers: what a code is above its value, or kOwnZeros
  SpreadPanels spread{};
};

using MatmulKernels = std::array<MatmulKernel, kWeightTypes.size()>;  // by DType

// --- rows
// -----------------------------------------------------------------------------------------------------------

// [inputs][stride] numbers, of whose rows the first `outputs` count; stride is a multiple of kLanes.
struct SmallMatrix {
  const float* at = nullptr;
  int inputs = 0;
  int outputs = 0;
  int stride = 0;
};

struct RowKernels {
  void (*rms_norm)(const float* x, const float* weight, float eps, int n, float* out) = nullptr;
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, int n, float* out) = nullptr;
  void (*swiglu)(const float* gate, const float* up, int n, float* out) = nullptr;
  // Of x, times `up` where that is not null; out may be x.
  void (*activate)(Activation activation, const float* x, const float* up, int n, float* out) = nullptr;
  void (*add)(float* x, const float* y, int n) = nullptr;
  void (*add_scaled)(float* x, const float* y, float scale, int n) = nullptr;  // rounded twice
  void (*rotate)(float* head, const float* cos, const float* sin, int pairs) = nullptr;
  void (*quantize)(const float* x, int n, Int8Block* out) = nullptr;         // n is a multiple of 32
  void (*quantize_groups)(const float* x, int n, Int8Group* out) = nullptr;  // n is a multiple of 256
  // x becomes x M: every output one chain of fused multiply-adds along the inputs.
  void (*project)(const float* x, const SmallMatrix& matrix, float* out) = nullptr;
  void (*swiglu_oai)(const float* gate, const float* up, float limit, int n, float* out) = nullptr;
};

// --- attention
// ------------------------------------------------------------------------------------------------------

// Contexts are summed in splits of this many tokens, at fixed positions: a split's result is the same whoever
// computes it, and splits merge in order.
inline constexpr int kSplitTokens = 256;
inline constexpr int kMaxQueryRows = 32;

// Rows of queries as they meet packed keys: integers of a byte.
struct QueryCodes {
  const std::int8_t* at = nullptr;  // [rows][stride], zeros behind k_dim
  int stride = 0;                   // k_dim rounded up to 16
  float scale[kMaxQueryRows] = {};  // what a unit is worth
  std::int32_t sum[kMaxQueryRows] = {};
};

// Rows of queries that read one KV head of the same blocks: consecutive tokens of one sequence, or one of a draft
// tree, or, of a split that lies behind all of them, tokens of several; all query heads that share the KV head, or
// some.
struct AttendTask {
  KvView view;
  SequenceView sequence;  // whose blocks are read
  TreePath path;          // of the token, if it is one of a tree
  ScoreRule rule;
  int kv_head = 0;
  int rows = 0;                            // at most kMaxQueryRows
  Position positions[kMaxQueryRows] = {};  // by row, the last that it may see; of one sequence they ascend
  Position queries[kMaxQueryRows] = {};    // where it stands itself
  int heads[kMaxQueryRows] = {};           // of the batch's
  const float* q = nullptr;                // [rows][k_dim], already scaled; not for packed keys
  QueryCodes codes;                        // for packed keys
};

// Partial sums of a tile: o is [rows][stride], in the space of V's format (turned, where that is rotated).
struct PartialRows {
  float* o = nullptr;
  SoftmaxState* state = nullptr;
  int stride = 0;  // mixed_dim() rounded up to 16
};

struct AttendScratch {
  float* scores = nullptr;    // [kMaxQueryRows][kSplitTokens]
  std::byte* keys = nullptr;  // 16 gathered key tiles, for block sizes that 16 does not divide; pruned keys as floats
  float* values = nullptr;    // [kSplitTokens][stride], for value rows that 16 does not divide, or pruned, or in K
  std::int8_t* weights = nullptr;  // [kMaxQueryRows][2][kSplitTokens], for packed values
};

// A split of the context in steps. score leaves a score for every key that some row may see; adjust does to them what
// a rule asks for beyond a scale, where it does; weigh makes weights of them and fills the rows' states; mix fills o.
struct AttentionKernels {
  using Step = void (*)(const AttendTask& task, std::int64_t split, const AttendScratch& scratch, PartialRows out);
  Step score = nullptr;
  Step adjust = nullptr;
  Step weigh = nullptr;
  Step mix = nullptr;
  void (*merge)(PartialRows into, PartialRows from, int rows) = nullptr;
  void (*finish)(PartialRows sums, int row, int v_dim, float* out) = nullptr;
};

// --- recurrent layers
// ----------------------------------------------------------------------------------------------------------------

// 16 channels, or fewer, of one sequence's part of a convolution: see CausalConvOp.
struct ConvTask {
  const float* x = nullptr;  // of the first row and channel; as the others
  std::int64_t x_stride = 0;
  const float* weight = nullptr;
  const float* bias = nullptr;  // or none
  float* kept = nullptr;        // the last inputs
  std::int64_t channels = 0;    // of all: between weights, and between kept inputs
  float* out = nullptr;
  std::int64_t out_stride = 0;
  int before = 0;   // kept inputs
  int columns = 0;  // channels, 1 … 16
  int rows = 0;
  bool fresh = false;  // what is kept is zero
  CausalConvOp::Bend bend = CausalConvOp::Bend::kNone;
};

// 16 columns, or fewer, of a head's matrix: see RecurrenceOp.
struct RecurrenceTask {
  RecurrenceOp::Rule rule = RecurrenceOp::Rule::kDelta;
  Matrix q;  // [rows][k_dim], of this head; as the next
  Matrix k;
  Matrix v;         // [rows][columns]
  Matrix decay;     // [rows][1] or [rows][k_dim]
  Matrix strength;  // [rows][1]
  float skip = 0;
  float* s = nullptr;  // of the first column
  int s_stride = 0;
  Matrix out;  // [rows][columns]
  bool fresh = false;
};

struct RecurrentKernels {
  void (*convolve)(const ConvTask& task) = nullptr;
  void (*recur)(const RecurrenceTask& task) = nullptr;
};

// --- what the machine can do
// ----------------------------------------------------------------------------------------

struct LimitKernels {
  float (*read)(const float* from, size_t floats, int streams) = nullptr;  // 2, 4, 8 or 16 streams
  float (*multiply)(std::int64_t rounds, float seed) = nullptr;            // 16 x 16 fused multiply-adds a round
};

MatmulKernels matmul_kernels(Isa isa, ActivationPrecision activations);
MatmulKernels quant_kernels(Isa isa);       // of the quantized types alone
LimitKernels quant_limit_kernels(Isa isa);  // multiply: 16 x 16 products of four codes a round
RowKernels row_kernels(Isa isa);
RecurrentKernels recurrent_kernels(Isa isa);
AttentionKernels attention_kernels(Isa isa);         // of formats of single numbers
AttentionKernels packed_attention_kernels(Isa isa);  // score and mix alone, of integer formats

}  // namespace kvasir::cpu
