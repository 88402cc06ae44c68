// GEMMs on a GPU: the shapes of Llama-3.1-8B beside the best algorithm that cuBLASLt suggests, with and without
// split-K. Their bits are tested in tests/backend/cuda_matmul_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/gemm/cuda_matmul.h"
#include "backend/cuda/ops/cast_rows.h"
#include "support/cuda_data.h"

namespace kvasir::cuda {
namespace {

using testing::all_skinny_shapes;
using testing::CudaRows;

struct Shape {
  int outputs;
  int inputs;
};

// Microseconds of one of `count` calls that a graph replays, the fastest of a few replays; infinite if it fails.
double microseconds(cudaStream_t stream, int count, const std::function<bool(int)>& call) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  bool fine = true;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
  for (int i = 0; i < count && fine; ++i) fine = call(i);
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  if (!fine || ended != cudaSuccess) {
    cudaGetLastError();
    return INFINITY;
  }
  check(cudaGraphInstantiate(&executable, graph, 0), "instantiating");
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
  check(cudaEventCreate(&start), "timing");
  check(cudaEventCreate(&stop), "timing");
  double best = INFINITY;
  for (int i = 0; i < 4; ++i) {
    check(cudaEventRecord(start, stream), "timing");
    check(cudaGraphLaunch(executable, stream), "replaying");
    check(cudaEventRecord(stop, stream), "timing");
    check(cudaEventSynchronize(stop), "timing");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start, stop), "timing");
    if (i > 0) best = std::min(best, ms * 1e3 / count);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  return best;
}

void time_shape(CudaMatmul& matmul, cudaStream_t stream, Shape shape, const std::vector<int>& numbers_of_rows) {
  constexpr Number number = Number::kBF16;
  const double bytes = static_cast<double>(shape.outputs) * shape.inputs * 2;
  const int copies = std::max(2, static_cast<int>(std::ceil(400e6 / bytes)));  // more than L2 holds
  const int calls = std::max(8, copies * 2);
  std::vector<std::unique_ptr<Weight>> weights;
  for (int i = 0; i < copies; ++i) {
    weights.push_back(matmul.make_random(shape.outputs, shape.inputs, number, static_cast<std::uint64_t>(i)));
  }
  const auto weight = [&](int i) -> const CudaWeight& {
    return dynamic_cast<const CudaWeight&>(*weights[static_cast<size_t>(i % copies)]);
  };
  const GemmAutotuner autotuner(stream);
  for (const int rows : numbers_of_rows) {
    if (rows > 512 && shape.outputs > 100000) continue;
    CudaRows x(rows, shape.inputs, 5, stream);
    CudaRows out(rows, shape.outputs, 6, stream);
    const std::string choice = matmul.choice(weight(0), rows);
    matmul.multiply(weight(0), x.matrix, nullptr, out.matrix);
    const auto whole = microseconds(stream, calls, [&](int i) {
      matmul.multiply(weight(i), x.matrix, nullptr, out.matrix);
      return true;
    });
    DeviceMemory converted(static_cast<size_t>(rows * weight(0).ld() * 2));
    convert_rows(x.matrix, number, converted.data(), weight(0).ld(), stream);
    const auto gemm = [&](int i) {
      return GemmArgs{weight(i).data(),
                      converted.data(),
                      nullptr,
                      out.matrix.data,
                      weight(i).ld(),
                      weight(i).ld(),
                      out.matrix.stride,
                      rows,
                      shape.outputs,
                      static_cast<int>(weight(i).ld()),
                      number};
    };
    std::string own;
    if (rows <= 128 && autotuner.skinny().available()) {
      double best = INFINITY;
      SkinnyShape fastest;
      for (const SkinnyShape s : all_skinny_shapes()) {
        if (!autotuner.skinny().can_do(gemm(0), s)) continue;
        const double time = microseconds(stream, calls, [&](int i) { return autotuner.run(gemm(i), s), true; });
        if (time < best) fastest = s;
        best = std::min(best, time);
      }
      own = fmt::format(" {:.1f} ({}x{} b{})", best, fastest.tile, fastest.cluster, fastest.boxes);
    }
    double lt[2] = {INFINITY, INFINITY};
    for (const SumSplits splits : {SumSplits::kAllowed, SumSplits::kNever}) {
      if (!autotuner.cublaslt().available()) break;
      for (const auto& algorithm : autotuner.cublaslt().suggestions(gemm(0), splits, 16)) {
        if (!autotuner.cublaslt().multiply(gemm(0), algorithm, stream)) continue;
        double& best = lt[static_cast<size_t>(splits == SumSplits::kNever)];
        best = std::min(best, microseconds(stream, calls, [&](int i) {
                          return autotuner.cublaslt().multiply(gemm(i), algorithm, stream);
                        }));
      }
    }
    const double best = std::min(lt[0], lt[1]);
    fmt::print("{}x{} M={:<5}{:8.1f} us {:5.2f} TB/s {:5.0f} TF | {:17} | lt {:.1f}, unsplit {:.1f} | x{:.2f} |{}\n",
               shape.outputs, shape.inputs, rows, whole, bytes / whole / 1e6,
               2e-6 * rows * shape.outputs * shape.inputs / whole, choice, best, lt[1], whole / best, own);
  }
}

// Microseconds of multiply() by weights of this form, more of them than L2 holds.
double time_form(CudaMatmul& matmul, cudaStream_t stream, std::span<const std::unique_ptr<Weight>> weights,
                 int rows) {
  const Weight& first = *weights.front();
  CudaRows x(rows, first.inputs(), 5, stream);
  CudaRows out(rows, first.outputs(), 6, stream);
  const auto multiply = [&](int i) {
    matmul.multiply(*weights[static_cast<size_t>(i) % weights.size()], x.matrix, nullptr, out.matrix);
    return true;
  };
  multiply(0);  // measures
  return microseconds(stream, std::max(8, static_cast<int>(weights.size()) * 2), multiply);
}

// 8-bit weights beside 16-bit ones.
void time_forms(CudaMatmul& matmul, cudaStream_t stream, Shape shape) {
  constexpr WeightQuantization kForms[] = {WeightQuantization::kAsStored, WeightQuantization::kInt8,
                                           WeightQuantization::kFp8};
  const double codes = static_cast<double>(shape.outputs) * shape.inputs;
  const int copies = std::max(2, static_cast<int>(std::ceil(300e6 / codes)));
  const auto numbers = matmul.make_random(shape.outputs, shape.inputs, Number::kBF16, 1);
  const auto host = testing::download<std::byte>(numbers->memory().data(), numbers->memory().size());
  std::vector<std::unique_ptr<Weight>> weights[3];
  for (size_t f = 0; f < 3; ++f) {
    const HostWeight weight{host, DType::kBF16, shape.outputs, shape.inputs, kForms[f]};
    for (int i = 0; i < copies; ++i) weights[f].push_back(matmul.load({&weight, 1}));
  }
  for (const int rows : {1, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
    std::string line = fmt::format("{}x{} M={:<5}", shape.outputs, shape.inputs, rows);
    for (size_t f = 0; f < 3; ++f) {
      const double time = time_form(matmul, stream, weights[f], rows);
      line += fmt::format(" | {:9} {:7.1f} us {:5.2f} TB/s {:16}", name_of(kForms[f]), time,
                          codes * (f == 0 ? 2 : 1) / time / 1e6, matmul.choice(*weights[f].front(), rows));
    }
    fmt::print("{}\n", line);
  }
}

void time_f32(CudaMatmul& matmul, cudaStream_t stream, Shape shape) {
  const auto weight = matmul.make_random(shape.outputs, shape.inputs, Number::kF32, 1);
  for (const int rows : {1, 4, 64, 512}) {
    CudaRows x(rows, shape.inputs, 5, stream);
    CudaRows out(rows, shape.outputs, 6, stream);
    const double time = microseconds(stream, 20, [&](int) {
      matmul.multiply(*weight, x.matrix, nullptr, out.matrix);
      return true;
    });
    fmt::print("f32 {}x{} M={:<4}{:8.1f} us {:5.1f} TF\n", shape.outputs, shape.inputs, rows, time,
               2e-6 * rows * shape.outputs * shape.inputs / time);
  }
}

// The GEMMs of a model's layers, as in a decode step, beside the fastest that cuBLASLt has: the price of batch
// invariance.
void time_layers(CudaMatmul& matmul, cudaStream_t stream, int rows) {
  constexpr int kLayers = 6;
  const std::vector<Shape> shapes{{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};
  CudaRows x(rows, 14336, 5, stream);
  CudaRows out(rows, 28672, 6, stream);
  DeviceMemory converted(static_cast<size_t>(rows) * 14336 * 2);
  const GemmAutotuner autotuner(stream);
  std::vector<std::unique_ptr<Weight>> weights;
  std::vector<cublasLtMatmulAlgo_t> fastest(shapes.size());
  double bytes = 0;
  for (int i = 0; i < kLayers; ++i) {
    for (const Shape shape : shapes) {
      weights.push_back(matmul.make_random(shape.outputs, shape.inputs, Number::kBF16, weights.size()));
      bytes += static_cast<double>(weights.back()->memory().size());
    }
  }
  const auto weight = [&](int i) -> const CudaWeight& {
    return dynamic_cast<const CudaWeight&>(*weights[static_cast<size_t>(i)]);
  };
  const auto gemm = [&](int i) {
    const CudaWeight& w = weight(i);
    return GemmArgs{w.data(), converted.data(), nullptr,    out.matrix.data, w.ld(), w.ld(), w.outputs(),
                    rows,     w.outputs(),      w.inputs(), Number::kBF16};
  };
  for (int s = 0; s < static_cast<int>(shapes.size()) && autotuner.cublaslt().available(); ++s) {
    double best = INFINITY;
    for (const auto& algorithm : autotuner.cublaslt().suggestions(gemm(s), SumSplits::kAllowed, 16)) {
      if (!autotuner.cublaslt().multiply(gemm(s), algorithm, stream)) continue;
      const double time = microseconds(stream, 2 * kLayers, [&](int i) {
        return autotuner.cublaslt().multiply(gemm(s + i % kLayers * 4), algorithm, stream);
      });
      if (time < best) fastest[static_cast<size_t>(s)] = algorithm;
      best = std::min(best, time);
    }
  }
  const auto inputs = [&](int i) { return Matrix{x.matrix.data, rows, weight(i).inputs(), weight(i).inputs()}; };
  const auto multiply = [&](int i) {
    matmul.multiply(weight(i), inputs(i), nullptr, {out.matrix.data, rows, weight(i).outputs(), weight(i).outputs()});
    return true;
  };
  for (int i = 0; i < 4; ++i) multiply(i);
  const int count = static_cast<int>(weights.size());
  const double own = microseconds(stream, count, multiply) * count;
  const double any =
      microseconds(stream, count,
                   [&](int i) {
                     convert_rows(inputs(i), Number::kBF16, converted.data(), weight(i).ld(), stream);
                     return autotuner.cublaslt().multiply(gemm(i), fastest[static_cast<size_t>(i % 4)], stream);
                   }) *
      count;
  fmt::print("a layer's four GEMMs M={:<4}{:7.1f} us {:5.2f} TB/s | cublasLt at its fastest {:.1f} us | x{:.3f}\n",
             rows, own / kLayers, bytes / own / 1e6, any / kLayers, own / any);
}

constexpr Shape kShapes[] = {{4096, 4096}, {6144, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}};

int time_all_forms() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "creating a stream");
  CudaMatmul matmul(stream, ActivationPrecision::kAsWeights);
  for (const Shape shape : kShapes) time_forms(matmul, stream, shape);
  return 0;
}

int time_all(const std::vector<int>& rows) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "creating a stream");
  CudaMatmul matmul(stream, ActivationPrecision::kAsWeights);
  fmt::print(
      "multiply() with its cast of rows, beside the GEMM alone by cuBLASLt (best of any, best that "
      "does not split K), and by the best skinny shape; microseconds\n");
  for (const Shape shape : kShapes) time_shape(matmul, stream, shape, rows);
  for (const int count : rows) {
    if (count <= 512) time_layers(matmul, stream, count);
  }
  for (const Shape shape : {Shape{768, 256}, Shape{4096, 1024}}) time_f32(matmul, stream, shape);
  return 0;
}

}  // namespace
}  // namespace kvasir::cuda

// "forms": 8-bit weights beside 16-bit ones. Numbers: the row counts to measure.
int main(int count, char** arguments) {
  try {
    const std::vector<std::string> words(arguments + 1, arguments + count);
    if (words == std::vector<std::string>{"forms"}) return kvasir::cuda::time_all_forms();
    std::vector<int> rows(words.size());
    std::ranges::transform(words, rows.begin(), [](const std::string& word) { return std::stoi(word); });
    return kvasir::cuda::time_all(rows.empty() ? std::vector{1, 4, 8, 16, 32, 64, 128, 512, 2048} : rows);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
