#include <array>
#include <type_traits>

#include "backend/cuda/gemm/w8/w8_consumers.cuh"
#include "backend/cuda/gemm/w8/w8_skinny_gemm.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

// Rows of a pass.
constexpr int kRowCounts[] = {8, 16, 32, 64, 128};
constexpr int kMostRows = 128;

int row_index(int rows) {
  int index = 0;
  while (kRowCounts[index] < std::min(rows, kMostRows)) ++index;
  return index;
}

// Up to so many rows mma.sync is used, beyond wgmma.
constexpr int kMmaRows = 16;

// Atoms of a wgmma warp: two, unless some warps would have none.
int atoms_of(SkinnyShape shape) { return shape.tile <= kWarpgroupWarps * kAtomOutputs ? 1 : 2; }

TileKind kind_of(const GemmArgs& gemm, SkinnyShape shape) {
  const int atoms = shape.tile / kAtomOutputs;
  const int of_group = atoms_of(shape) * kWarpgroupWarps;
  const int warps = gemm.rows <= kMmaRows ? atoms : (atoms + of_group - 1) / of_group * kWarpgroupWarps;
  return {shape.tile * kAtomDepth, kRowCounts[row_index(gemm.rows)], warps};
}

template <class Convert, int kRows, int kBoxes, int kAtoms>
__global__ void __launch_bounds__(kMostConsumers + 32, 1)
    w8_gemm_kernel(const __grid_constant__ W8GemmArgs p, const __grid_constant__ PipelinePlan plan,
                   const __grid_constant__ CUtensorMap weights, const __grid_constant__ CUtensorMap rows) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 w8_stages[];
  using Consumer = std::conditional_t<kRows <= kMmaRows, MmaConsumer<Convert, kRows, kBoxes>,
                                      WarpgroupConsumer<Convert, kRows, kBoxes, kAtoms>>;
  run_pipeline<W8TileLoad<kBoxes>>(plan, &weights, &rows, w8_stages, [&](const CtaStages& cta) {
    const Consumer consumer{p, plan, cta};
    consumer.run();
  });
#endif
}

using Kernel = void (*)(W8GemmArgs, PipelinePlan, CUtensorMap, CUtensorMap);

template <class Convert, int kBoxes, int kAtoms>
Kernel kernel_of(int rows) {
  constexpr std::array<Kernel, std::size(kRowCounts)> kByRows{
      w8_gemm_kernel<Convert, 8, kBoxes, 1>, w8_gemm_kernel<Convert, 16, kBoxes, 1>,
      w8_gemm_kernel<Convert, 32, kBoxes, kAtoms>, w8_gemm_kernel<Convert, 64, kBoxes, kAtoms>,
      w8_gemm_kernel<Convert, 128, kBoxes, kAtoms>};
  return kByRows[static_cast<size_t>(row_index(rows))];
}

template <class Convert>
Kernel kernel_of(int rows, SkinnyShape shape) {
  if (atoms_of(shape) == 1) return shape.boxes == 2 ? kernel_of<Convert, 2, 1>(rows) : kernel_of<Convert, 4, 1>(rows);
  return shape.boxes == 2 ? kernel_of<Convert, 2, 2>(rows) : kernel_of<Convert, 4, 2>(rows);
}

Kernel kernel_of(WeightQuantization form, int rows, SkinnyShape shape) {
  return form == WeightQuantization::kFp8 ? kernel_of<Fp8ToBf16>(rows, shape) : kernel_of<Int8ToBf16>(rows, shape);
}

// Boxes of the atoms of a tile, copied as 16-bit numbers.
CUtensorMap make_w8_map(const GemmArgs& gemm, SkinnyShape shape) {
  const int along = atoms_along(gemm.inputs);
  TmaTensor3d atoms;
  atoms.data = gemm.w;
  atoms.sizes[0] = atoms.box[0] = kAtomBytes / 2;
  atoms.sizes[1] = along;
  atoms.sizes[2] = atoms_across(gemm.outputs);
  atoms.strides[0] = kAtomBytes;
  atoms.strides[1] = static_cast<std::int64_t>(along) * kAtomBytes;
  atoms.box[1] = shape.boxes;
  atoms.box[2] = shape.tile / kAtomOutputs;
  atoms.swizzle = TmaSwizzle::kNone;
  return make_tensor_map_3d(atoms);
}

}  // namespace

W8SkinnyGemm::W8SkinnyGemm(const SkinnyGemm& like)
    : available_(like.available()), shared_bytes_(like.shared_bytes()) {
  if (!available_) return;
  for (const int cluster : {1, 2, 4}) clusters_[static_cast<size_t>(cluster)] = like.clusters_at_once(cluster);
  for (const WeightQuantization form : {WeightQuantization::kInt8, WeightQuantization::kFp8}) {
    for (const SkinnyShape shape : {SkinnyShape{32, 1, 2}, {32, 1, 4}, {64, 1, 2}, {64, 1, 4}}) {
      for (const int rows : kRowCounts) {
        check(cudaFuncSetAttribute(kernel_of(form, rows, shape), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   shared_bytes_),
              "w8_gemm_kernel's shared memory");
      }
    }
  }
}

bool is_w8_shape(SkinnyShape shape) {
  return std::ranges::find(kW8Tiles, shape.tile) != std::end(kW8Tiles) &&
         (shape.cluster == 1 || shape.cluster == 2 || shape.cluster == 4) && (shape.boxes == 2 || shape.boxes == 4);
}

bool W8SkinnyGemm::can_do(const GemmArgs& gemm, SkinnyShape shape) const {
  if (!available_) return false;
  const PipelinePlan plan = plan_for(gemm, shape, kind_of(gemm, shape), shared_bytes_);
  return plan.consumers <= kMostConsumers && plan.stages >= kFewestStages;
}

void W8SkinnyGemm::multiply(const W8GemmArgs& gemm, SkinnyShape shape, cudaStream_t stream) const {
  const GemmArgs& of = gemm.of;
  CHECK(is_w8_shape(shape) && can_do(of, shape));
  const PipelinePlan plan = plan_for(of, shape, kind_of(of, shape), shared_bytes_);
  const CUtensorMap weights = make_w8_map(of, shape);
  const CUtensorMap rows = make_tensor_map({of.x, of.ld_x, of.rows, of.inputs, plan.box_rows, of.number});
  const int clusters = std::min(plan.tile_groups * plan.passes, clusters_[static_cast<size_t>(shape.cluster)]);
  const LaunchShape launch{dim3(static_cast<unsigned>(clusters * shape.cluster)), dim3(threads_of(plan)),
                           static_cast<size_t>(shared_bytes_), static_cast<unsigned>(shape.cluster)};
  launch_pdl("w8_gemm_kernel", kernel_of(gemm.form, of.rows, shape), launch, stream, gemm, plan, weights, rows);
}

}  // namespace kvasir::cuda
