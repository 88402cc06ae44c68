#include <array>
#include <type_traits>

#include "backend/cuda/code_consumers.cuh"
#include "backend/cuda/code_stream.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

// Rows that are multiplied at once.
constexpr int kRowCounts[] = {8, 16, 32, 64, 128};
constexpr int kMostRows = 128;

int row_index(int rows) {
  int index = 0;
  while (kRowCounts[index] < std::min(rows, kMostRows)) ++index;
  return index;
}

// By mma.sync up to so many rows, by wgmma beyond.
constexpr int kMmaRows = 16;

// Of wgmma's warps: two, but where that would leave some of the warps without any.
int units_of(StreamShape shape) { return shape.tile <= kGroupWarps * kUnitOutputs ? 1 : 2; }

StreamKind kind_of(const Product& product, StreamShape shape) {
  const int units = shape.tile / kUnitOutputs;
  const int of_group = units_of(shape) * kGroupWarps;
  const int warps = product.rows <= kMmaRows ? units : (units + of_group - 1) / of_group * kGroupWarps;
  return {shape.tile * kUnitDepth, kRowCounts[row_index(product.rows)], warps};
}

template <class Codes, int kRows, int kBoxes, int kUnits>
__global__ void __launch_bounds__(kMostConsumers + 32, 1)
    code_kernel(const __grid_constant__ CodedProduct p, const __grid_constant__ StreamPlan plan,
                const __grid_constant__ CUtensorMap weights, const __grid_constant__ CUtensorMap rows) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 code_stages[];
  using Consumer = std::conditional_t<kRows <= kMmaRows, MmaConsumer<Codes, kRows, kBoxes>,
                                      WarpgroupConsumer<Codes, kRows, kBoxes, kUnits>>;
  stream_through<CodeFeed<kBoxes>>(plan, &weights, &rows, code_stages, [&](const BlockStages& block) {
    const Consumer consumer{p, plan, block};
    consumer.run();
  });
#endif
}

using Kernel = void (*)(CodedProduct, StreamPlan, CUtensorMap, CUtensorMap);

template <class Codes, int kBoxes, int kUnits>
Kernel kernel_of(int rows) {
  constexpr std::array<Kernel, std::size(kRowCounts)> kByRows{
      code_kernel<Codes, 8, kBoxes, 1>, code_kernel<Codes, 16, kBoxes, 1>, code_kernel<Codes, 32, kBoxes, kUnits>,
      code_kernel<Codes, 64, kBoxes, kUnits>, code_kernel<Codes, 128, kBoxes, kUnits>};
  return kByRows[static_cast<size_t>(row_index(rows))];
}

template <class Codes>
Kernel kernel_of(int rows, StreamShape shape) {
  if (units_of(shape) == 1) return shape.boxes == 2 ? kernel_of<Codes, 2, 1>(rows) : kernel_of<Codes, 4, 1>(rows);
  return shape.boxes == 2 ? kernel_of<Codes, 2, 2>(rows) : kernel_of<Codes, 4, 2>(rows);
}

Kernel kernel_of(WeightForm form, int rows, StreamShape shape) {
  return form == WeightForm::kFp8 ? kernel_of<Fp8Codes>(rows, shape) : kernel_of<Int8Codes>(rows, shape);
}

// The units of `boxes` boxes of a tile. Their bytes are copied as if they were numbers of 16 bits.
CUtensorMap make_code_map(const Product& product, StreamShape shape) {
  const int along = units_along(product.inputs);
  BoxedRows units;
  units.data = product.w;
  units.sizes[0] = units.box[0] = kUnitBytes / 2;
  units.sizes[1] = along;
  units.sizes[2] = units_across(product.outputs);
  units.strides[0] = kUnitBytes;
  units.strides[1] = static_cast<std::int64_t>(along) * kUnitBytes;
  units.box[1] = shape.boxes;
  units.box[2] = shape.tile / kUnitOutputs;
  units.swizzle = BoxSwizzle::kNone;
  return make_tensor_map_3d(units);
}

}  // namespace

CodeStream::CodeStream(const StreamProduct& like) : available_(like.available()), shared_bytes_(like.shared_bytes()) {
  if (!available_) return;
  for (const int cluster : {1, 2, 4}) clusters_[static_cast<size_t>(cluster)] = like.clusters_at_once(cluster);
  for (const WeightForm form : {WeightForm::kInt8, WeightForm::kFp8}) {
    for (const StreamShape shape : {StreamShape{32, 1, 2}, {32, 1, 4}, {64, 1, 2}, {64, 1, 4}}) {
      for (const int rows : kRowCounts) {
        check(cudaFuncSetAttribute(kernel_of(form, rows, shape), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   shared_bytes_),
              "code_kernel's shared memory");
      }
    }
  }
}

bool is_code_shape(StreamShape shape) {
  return std::ranges::find(kCodeTiles, shape.tile) != std::end(kCodeTiles) &&
         (shape.cluster == 1 || shape.cluster == 2 || shape.cluster == 4) && (shape.boxes == 2 || shape.boxes == 4);
}

bool CodeStream::can_do(const Product& product, StreamShape shape) const {
  if (!available_) return false;
  const StreamPlan plan = plan_for(product, shape, kind_of(product, shape), shared_bytes_);
  return plan.consumers <= kMostConsumers && plan.stages >= kFewestStages;
}

void CodeStream::multiply(const CodedProduct& product, StreamShape shape, cudaStream_t stream) const {
  const Product& of = product.of;
  CHECK(is_code_shape(shape) && can_do(of, shape));
  const StreamPlan plan = plan_for(of, shape, kind_of(of, shape), shared_bytes_);
  const CUtensorMap weights = make_code_map(of, shape);
  const CUtensorMap rows = make_tensor_map({of.x, of.ld_x, of.rows, of.inputs, plan.box_rows, of.number});
  const int clusters = std::min(plan.groups * plan.passes, clusters_[static_cast<size_t>(shape.cluster)]);
  const LaunchShape blocks{dim3(static_cast<unsigned>(clusters * shape.cluster)), dim3(threads_of(plan)),
                           static_cast<size_t>(shared_bytes_), static_cast<unsigned>(shape.cluster)};
  launch_early("code_kernel", kernel_of(product.form, of.rows, shape), blocks, stream, product, plan, weights, rows);
}

}  // namespace kvasir::cuda
