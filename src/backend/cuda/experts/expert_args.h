// The arguments of the kernels of a layer of experts, and what these leave to each other on the device.
//
// A pair is a row and one of the experts it goes to: pair r * used + k is the k-th choice of row r. Pairs are sorted
// by expert; the place of a pair is where it comes then, and a tile is some neighbouring places of one expert. Which
// place of its expert a pair gets may differ from run to run: no bit depends on it.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/gemm/gemm.h"
#include "backend/ops.h"
#include "backend/weight_quantization.h"

namespace kvasir::cuda {

// A weight as kernels find it.
struct ExpertMatrix {
  const void* at = nullptr;
  const float* scales = nullptr;  // of codes
  Number number = Number::kBF16;  // of the rows that meet it
  WeightQuantization form = WeightQuantization::kAsStored;

  friend bool operator==(const ExpertMatrix&, const ExpertMatrix&) = default;
};

// Neighbouring places of one expert.
struct ExpertTile {
  int expert = 0;
  int first = 0;
  int rows = 0;
};

inline constexpr int kFewRows = 8;  // of a tile
inline constexpr int kManyRows = 64;

// All of these are device memory.
struct RoutedPairs {
  int pairs = 0;
  int used = 0;
  int experts = 0;
  int rows_of_tile = kFewRows;
  int* expert_of = nullptr;    // [pairs]
  float* weight_of = nullptr;  // [pairs]
  int* place_of = nullptr;     // [pairs]
  int* pair_at = nullptr;      // [places]
  ExpertTile* tiles = nullptr;
  int* tile_count = nullptr;

  // No batch has more tiles.
  constexpr int most_tiles() const { return pairs / rows_of_tile + (experts < pairs ? experts : pairs); }
};

// route_rows.cu. Experts and weights of each row, as backend/router.h has them.
void route_rows(Matrix logits, const RouterRule& rule, const RoutedPairs& to, cudaStream_t stream);
// Places and tiles.
void group_pairs(const RoutedPairs& pairs, cudaStream_t stream);

// expert_rows.cu. GEMM inputs by place, each cast as its expert's matrix wants it: [places] of row_bytes, zeros
// behind the last column.
struct ExpertRows {
  RoutedPairs pairs;
  const ExpertMatrix* matrices = nullptr;  // [experts], of the GEMM
  std::byte* to = nullptr;
  std::int64_t row_bytes = 0;
  int ld = 0;
};
// Of the rows of x, times their weights where an expert reads weighed rows.
void gather_expert_rows(const ExpertRows& rows, Matrix x, RouterRule::Weighs weighs, cudaStream_t stream);
// Of gates and ups by place, side by side, or of ups alone.
struct GateUps {
  const float* at = nullptr;  // [places][stride]
  int width = 0;
  int stride = 0;  // twice the width; or the width, where there are no gates
  Activation activation = Activation::kSilu;
  float limit = 0;
};
void activate_expert_rows(const ExpertRows& rows, const GateUps& from, cudaStream_t stream);
// out[r] = the sum of what r's experts made, y [places][out.cols], in the order in which they were chosen.
void sum_expert_rows(const RoutedPairs& pairs, const float* y, RouterRule::Weighs weighs, Matrix out,
                     cudaStream_t stream);

// expert_gemm.cu. Every place's row times its expert's matrix: the arithmetic of gemm.h and f32_gemm.h, of w8/ for
// codes. Experts whose matrix is of another number or form are left out.
struct ExpertGemm {
  RoutedPairs pairs;
  const ExpertMatrix* matrices = nullptr;  // [experts]
  const std::byte* x = nullptr;            // of ExpertRows
  std::int64_t row_bytes = 0;
  int inputs = 0;  // padded
  int outputs = 0;
  const float* bias = nullptr;  // or none
  int bias_step = 0;            // from an expert's to the next one's
  float* out = nullptr;         // [places], ld_out apart
  int ld_out = 0;
  Number number = Number::kBF16;
  WeightQuantization form = WeightQuantization::kAsStored;
};
void multiply_expert_rows(const ExpertGemm& gemm, cudaStream_t stream);

}  // namespace kvasir::cuda
