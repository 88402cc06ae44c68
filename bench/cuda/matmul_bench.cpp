// Matrix products on a GPU: are the bits right, whatever the number of rows, and how fast are they?
//
//   matmul_bench check    rows alone against rows in batches, every kernel against every other, values against
//   float64 matmul_bench time     the shapes of Llama-3.1-8B beside the best algorithm that cuBLASLt suggests, split
//   sums or not
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/compare_outputs.h"
#include "backend/cuda/convert_rows.h"
#include "backend/cuda/cuda_matmul.h"
#include "backend/cuda/mma_product.h"
#include "backend/weight_reader.h"

namespace kvasir::cuda {
namespace {

struct Shape {
  int outputs;
  int inputs;
};

const char* name_of(Number number) {
  return number == Number::kBF16 ? "bf16" : number == Number::kF16 ? "f16" : "f32";
}

template <class T>
std::vector<T> download(const void* from, size_t count) {
  std::vector<T> out(count);
  check(cudaMemcpy(out.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "downloading");
  return out;
}

float to_float(std::uint16_t bits, Number number) {
  HostWeight one{std::as_bytes(std::span(&bits, 1)), number == Number::kF16 ? DType::kF16 : DType::kBF16, 1, 1};
  return read_vector(one)[0];
}

std::vector<float> as_floats(const void* from, Number number, size_t count) {
  if (number == Number::kF32) return download<float>(from, count);
  std::vector<float> out;
  for (const std::uint16_t bits : download<std::uint16_t>(from, count)) out.push_back(to_float(bits, number));
  return out;
}

struct Rows {
  Rows(int count, int cols, std::uint64_t seed, cudaStream_t stream)
      : memory(static_cast<size_t>(count) * static_cast<size_t>(cols) * 4) {
    matrix = {reinterpret_cast<float*>(memory.data()), count, cols, cols};
    fill_random({memory.data(), cols, count, cols, Number::kF32}, 1.0F, seed, stream);
  }
  DeviceMemory memory;
  Matrix matrix;
};

std::vector<StreamShape> stream_shapes() {
  std::vector<StreamShape> out;
  for (const int tile : {16, 32, 48, 64}) {
    for (const int cluster : {1, 2, 4}) {
      for (const int boxes : {2, 4}) out.push_back({tile, cluster, boxes});
    }
  }
  return out;
}

// ---------------------------------------------------------------------------------------------------------- check

enum class Sizes { kSmall, kAll };

class Checker {
 public:
  Checker() { check(cudaStreamCreate(&stream_), "creating a stream"); }

  int run(Sizes sizes) {
    CudaMatmul matmul(stream_, Activations::kAsWeights);
    fmt::print("cublasLt {}\n", matmul.has_cublas_lt() ? "found" : "absent");
    const std::vector<Shape> odd{{1, 1}, {7, 5}, {33, 17}, {100, 200}, {257, 1000}, {31, 4104}, {130, 72}};
    for (const Number number : {Number::kBF16, Number::kF16, Number::kF32}) {
      for (const Shape shape : odd) check_shape(matmul, shape, number, 300);
      if (sizes == Sizes::kAll) check_shape(matmul, {1024, 768}, number, 2048);
    }
    for (const Number number : {Number::kBF16, Number::kF16}) {
      if (sizes == Sizes::kSmall) break;
      for (const Shape shape : {Shape{4096, 4096}, Shape{6144, 4096}, Shape{4096, 14336}}) {
        check_shape(matmul, shape, number, 2048);
      }
    }
    check_load(matmul);
    check_graph(matmul);
    fmt::print("{}\n", failures_ == 0 ? "all right" : fmt::format("{} FAILURES", failures_));
    return failures_ == 0 ? 0 : 1;
  }

 private:
  void expect(bool condition, const std::string& what) {
    if (condition) return;
    ++failures_;
    if (failures_ < 60) fmt::print("  WRONG: {}\n", what);
  }

  bool same_bits(Matrix a, Matrix b) {
    DeviceMemory memory(sizeof(Tally));
    auto* tally = reinterpret_cast<Tally*>(memory.data());
    check(cudaMemsetAsync(tally, 0, sizeof(Tally), stream_), "clearing");
    compare_outputs(a, b, tally, stream_);
    check(cudaStreamSynchronize(stream_), "comparing");
    return download<Tally>(tally, 1)[0].different == 0;
  }

  void poison(Matrix m) {
    check(cudaMemsetAsync(m.data, 0xff, static_cast<size_t>(m.rows * m.stride) * 4, stream_), "poisoning");
  }

  void check_shape(CudaMatmul& matmul, Shape shape, Number number, int most) {
    const auto weight = matmul.make_random(shape.outputs, shape.inputs, number, 3);
    Rows x(most, shape.inputs, 5, stream_);
    Rows alone(most, shape.outputs, 6, stream_);
    Rows out(most, shape.outputs, 7, stream_);
    const std::string name = fmt::format("{} {}x{}", cuda::name_of(number), shape.outputs, shape.inputs);
    const auto row = [](Matrix m, int r) { return Matrix{m.row(r), 1, m.cols, m.stride}; };
    std::vector<int> watched;
    for (const int r : {0, 1, 2, 7, 8, 15, 16, 63, 64, 127, 128, 299, 1000, 2047}) {
      if (r < most) watched.push_back(r);
    }
    for (const int r : watched) matmul.multiply(*weight, row(x.matrix, r), nullptr, row(alone.matrix, r));
    for (const int rows : {1, 2, 3, 5, 8, 13, 16, 17, 33, 64, 65, 100, 128, 300, 511, 777, 1025, 2048}) {
      if (rows > most) continue;
      poison(out.matrix);
      matmul.multiply(*weight, x.matrix.first_rows(rows), nullptr, out.matrix.first_rows(rows));
      for (const int r : watched) {
        if (r >= rows) continue;
        expect(same_bits(row(alone.matrix, r), row(out.matrix, r)), fmt::format("{}: row {} of {}", name, r, rows));
      }
    }
    check_values(dynamic_cast<const CudaWeight&>(*weight), x.matrix, alone.matrix, name);
    check_bias(matmul, *weight, x.matrix, name);
    if (number != Number::kF32) check_kernels(dynamic_cast<const CudaWeight&>(*weight), x.matrix, alone.matrix, name);
    fmt::print("{}: checked, 1 row {}, {} rows {}\n", name, matmul.choice(*weight, 1), most,
               matmul.choice(*weight, most));
  }

  // Row 0 and row 2 against sums in double of the rounded operands.
  void check_values(const CudaWeight& weight, Matrix x, Matrix out, const std::string& name) {
    const Number number = weight.number();
    DeviceMemory converted(static_cast<size_t>(3 * weight.ld() * bytes_of(number)));
    convert_rows(x.first_rows(3), number, converted.data(), weight.ld(), stream_);
    check(cudaStreamSynchronize(stream_), "converting");
    const size_t count = static_cast<size_t>(std::min(weight.outputs(), 64));
    const auto ld = static_cast<size_t>(weight.ld());
    const std::vector<float> rows = as_floats(converted.data(), number, 3 * ld);
    const std::vector<float> w = as_floats(weight.data(), number, count * ld);
    double error = 0;
    double size = 0;
    for (const size_t r : {size_t{0}, size_t{2}}) {
      const std::vector<float> got = download<float>(out.row(static_cast<int>(r)), count);
      for (size_t o = 0; o < count; ++o) {
        double sum = 0;
        for (size_t k = 0; k < ld; ++k) sum += static_cast<double>(rows[r * ld + k]) * w[o * ld + k];
        error += (got[o] - sum) * (got[o] - sum);
        size += sum * sum;
      }
    }
    const double relative = std::sqrt(error / size);
    expect(relative < 2e-5, fmt::format("{}: off by {:.2e}", name, relative));
  }

  void check_bias(CudaMatmul& matmul, const Weight& weight, Matrix x, const std::string& name) {
    Rows bias(1, weight.outputs(), 11, stream_);
    for (const int rows : {1, 20, 300}) {
      Rows plain(rows, weight.outputs(), 8, stream_);
      Rows biased(rows, weight.outputs() + 3, 9, stream_);
      const Matrix out = biased.matrix.columns(1, weight.outputs());  // neither aligned nor dense
      matmul.multiply(weight, x.first_rows(rows), nullptr, plain.matrix);
      matmul.multiply(weight, x.first_rows(rows), bias.matrix.data, out);
      add_bias(bias.matrix.data, plain.matrix, stream_);
      expect(same_bits(plain.matrix, out), fmt::format("{}: bias with {} rows", name, rows));
    }
  }

  // Every own kernel, and every suggestion of cuBLASLt that the tuner would believe, by themselves.
  void check_kernels(const CudaWeight& weight, Matrix x, Matrix alone, const std::string& name) {
    const ProductTuner tuner(stream_);
    const Number number = weight.number();
    for (const int rows : {1, 3, 8, 9, 16, 20, 40, 64, 65, 200}) {
      DeviceMemory converted(static_cast<size_t>(rows * weight.ld() * bytes_of(number)));
      convert_rows(x.first_rows(rows), number, converted.data(), weight.ld(), stream_);
      Rows out(rows, weight.outputs(), 9, stream_);
      Rows by_mma(rows, weight.outputs(), 10, stream_);
      Product product{weight.data(), converted.data(),  nullptr, nullptr,          weight.ld(),
                      weight.ld(),   out.matrix.stride, rows,    weight.outputs(), static_cast<int>(weight.ld()),
                      number};
      product.out = by_mma.matrix.data;
      poison(by_mma.matrix);
      tuner.run(product, ByMma{});
      expect(same_bits(alone.first_rows(1), by_mma.matrix.first_rows(1)),
             fmt::format("{}: mma, {} rows", name, rows));
      product.out = out.matrix.data;
      if (!tuner.stream_product().available()) continue;
      for (const StreamShape shape : stream_shapes()) {
        if (!tuner.stream_product().can_do(product, shape)) continue;
        poison(out.matrix);
        tuner.run(product, shape);
        expect(same_bits(by_mma.matrix, out.matrix),
               fmt::format("{}: stream {}x{} b{}, {} rows", name, shape.tile, shape.cluster, shape.boxes, rows));
      }
    }
  }

  void check_load(CudaMatmul& matmul) {
    std::mt19937 random(1);
    for (const DType type : {DType::kBF16, DType::kF16, DType::kF32, DType::kQ8_0, DType::kQ4_K}) {
      const int cols = is_quantized(type) ? 512 : 509;
      std::vector<std::byte> bytes(row_bytes(type, cols) * 40);
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(random() % 0x38);  // no infinities, no NaNs
      const auto part = [&](int first, int rows) {
        return HostWeight{std::span(bytes).subspan(row_bytes(type, cols) * static_cast<size_t>(first)), type, rows,
                          cols};
      };
      const HostWeight stacked[] = {part(0, 33), part(33, 7)};
      const auto weight = matmul.load(stacked);
      const std::vector<TokenId> tokens{0, 39, 32, 33, 5};
      DeviceMemory ids(tokens.size() * 4);
      check(cudaMemcpy(ids.data(), tokens.data(), tokens.size() * 4, cudaMemcpyHostToDevice), "tokens");
      Rows out(5, cols, 3, stream_);
      matmul.embed(*weight, reinterpret_cast<const TokenId*>(ids.data()), 5, out.matrix);
      check(cudaStreamSynchronize(stream_), "embedding");
      const std::vector<float> got = download<float>(out.matrix.data, tokens.size() * static_cast<size_t>(cols));
      std::vector<float> want(static_cast<size_t>(cols));
      for (size_t t = 0; t < tokens.size(); ++t) {
        read_row(part(0, 40), tokens[t], want.data());
        for (size_t c = 0; c < want.size(); ++c) {
          const float tolerance = is_quantized(type) ? std::abs(want[c]) * 0x1p-11F + 0x1p-24F : 0.0F;
          const float value = got[t * want.size() + c];
          if (std::abs(value - want[c]) <= tolerance) continue;
          expect(false, fmt::format("{}: token {}, {} instead of {}", kvasir::name_of(type), t, value, want[c]));
          break;
        }
      }
    }
  }

  void check_graph(CudaMatmul& matmul) {
    const auto first = matmul.make_random(512, 256, Number::kBF16, 1);
    const auto second = matmul.make_random(256, 512, Number::kBF16, 2);
    Rows x(4, 256, 3, stream_);
    Rows middle(4, 512, 4, stream_);
    Rows out(4, 256, 5, stream_);
    Rows again(4, 256, 6, stream_);
    const auto both = [&](Matrix to) {
      matmul.multiply(*first, x.matrix, nullptr, middle.matrix);
      matmul.multiply(*second, middle.matrix, nullptr, to);
    };
    both(out.matrix);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "capturing");
    both(again.matrix);
    check(cudaStreamEndCapture(stream_, &graph), "capturing");
    check(cudaGraphInstantiate(&executable, graph, 0), "instantiating");
    for (int i = 0; i < 3; ++i) {
      poison(again.matrix);
      check(cudaGraphLaunch(executable, stream_), "replaying");
      expect(same_bits(out.matrix, again.matrix), "a graph's replay");
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }

  cudaStream_t stream_ = nullptr;
  int failures_ = 0;
};

// ----------------------------------------------------------------------------------------------------------- time

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

void time_shape(CudaMatmul& matmul, cudaStream_t stream, Shape shape, Number number) {
  const double bytes = static_cast<double>(shape.outputs) * shape.inputs * 2;
  const int copies = std::max(2, static_cast<int>(std::ceil(400e6 / bytes)));  // more than the caches hold
  const int calls = std::max(8, copies * 2);
  std::vector<std::unique_ptr<Weight>> weights;
  for (int i = 0; i < copies; ++i) {
    weights.push_back(matmul.make_random(shape.outputs, shape.inputs, number, static_cast<std::uint64_t>(i)));
  }
  const auto weight = [&](int i) -> const CudaWeight& {
    return dynamic_cast<const CudaWeight&>(*weights[static_cast<size_t>(i % copies)]);
  };
  const ProductTuner tuner(stream);
  for (const int rows : {1, 4, 8, 16, 32, 64, 128, 512, 2048}) {
    if (rows > 512 && shape.outputs > 100000) continue;
    Rows x(rows, shape.inputs, 5, stream);
    Rows out(rows, shape.outputs, 6, stream);
    const std::string choice = matmul.choice(weight(0), rows);
    matmul.multiply(weight(0), x.matrix, nullptr, out.matrix);
    const auto whole = microseconds(stream, calls, [&](int i) {
      matmul.multiply(weight(i), x.matrix, nullptr, out.matrix);
      return true;
    });
    DeviceMemory converted(static_cast<size_t>(rows * weight(0).ld() * 2));
    convert_rows(x.matrix, number, converted.data(), weight(0).ld(), stream);
    const auto product = [&](int i) {
      return Product{weight(i).data(),
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
    if (rows <= 128 && tuner.stream_product().available()) {
      double best = INFINITY;
      StreamShape fastest;
      for (const StreamShape s : stream_shapes()) {
        if (!tuner.stream_product().can_do(product(0), s)) continue;
        const double time = microseconds(stream, calls, [&](int i) { return tuner.run(product(i), s), true; });
        if (time < best) fastest = s;
        best = std::min(best, time);
      }
      own = fmt::format(" {:.1f} ({}x{} b{})", best, fastest.tile, fastest.cluster, fastest.boxes);
    }
    double lt[2] = {INFINITY, INFINITY};
    for (const SumSplits splits : {SumSplits::kAllowed, SumSplits::kNever}) {
      if (!tuner.lt().available()) break;
      for (const auto& algorithm : tuner.lt().suggestions(product(0), splits, 16)) {
        if (!tuner.lt().multiply(product(0), algorithm, stream)) continue;
        double& best = lt[static_cast<size_t>(splits == SumSplits::kNever)];
        best = std::min(best, microseconds(stream, calls, [&](int i) {
                          return tuner.lt().multiply(product(i), algorithm, stream);
                        }));
      }
    }
    const double best = std::min(lt[0], lt[1]);
    fmt::print("{}x{} M={:<5}{:8.1f} us {:5.2f} TB/s {:5.0f} TF | {:17} | lt {:.1f}, unsplit {:.1f} | x{:.2f} |{}\n",
               shape.outputs, shape.inputs, rows, whole, bytes / whole / 1e6,
               2e-6 * rows * shape.outputs * shape.inputs / whole, choice, best, lt[1], whole / best, own);
  }
}

void time_f32(CudaMatmul& matmul, cudaStream_t stream, Shape shape) {
  const auto weight = matmul.make_random(shape.outputs, shape.inputs, Number::kF32, 1);
  for (const int rows : {1, 4, 64, 512}) {
    Rows x(rows, shape.inputs, 5, stream);
    Rows out(rows, shape.outputs, 6, stream);
    const double time = microseconds(stream, 20, [&](int) {
      matmul.multiply(*weight, x.matrix, nullptr, out.matrix);
      return true;
    });
    fmt::print("f32 {}x{} M={:<4}{:8.1f} us {:5.1f} TF\n", shape.outputs, shape.inputs, rows, time,
               2e-6 * rows * shape.outputs * shape.inputs / time);
  }
}

// A model's products one after the other, as a decode step has them, beside the same by whatever cuBLASLt does
// fastest: what it costs that a row's bits never change.
void time_layers(CudaMatmul& matmul, cudaStream_t stream, int rows) {
  constexpr int kLayers = 6;
  const std::vector<Shape> shapes{{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};
  Rows x(rows, 14336, 5, stream);
  Rows out(rows, 28672, 6, stream);
  DeviceMemory converted(static_cast<size_t>(rows) * 14336 * 2);
  const ProductTuner tuner(stream);
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
  const auto product = [&](int i) {
    const CudaWeight& w = weight(i);
    return Product{w.data(), converted.data(), nullptr,    out.matrix.data, w.ld(), w.ld(), w.outputs(),
                   rows,     w.outputs(),      w.inputs(), Number::kBF16};
  };
  for (int s = 0; s < static_cast<int>(shapes.size()) && tuner.lt().available(); ++s) {
    double best = INFINITY;
    for (const auto& algorithm : tuner.lt().suggestions(product(s), SumSplits::kAllowed, 16)) {
      if (!tuner.lt().multiply(product(s), algorithm, stream)) continue;
      const double time = microseconds(stream, 2 * kLayers, [&](int i) {
        return tuner.lt().multiply(product(s + i % kLayers * 4), algorithm, stream);
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
                     return tuner.lt().multiply(product(i), fastest[static_cast<size_t>(i % 4)], stream);
                   }) *
      count;
  fmt::print("a layer's four products M={:<4}{:7.1f} us {:5.2f} TB/s | cublasLt at its fastest {:.1f} us | x{:.3f}\n",
             rows, own / kLayers, bytes / own / 1e6, any / kLayers, own / any);
}

int time_all() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "creating a stream");
  CudaMatmul matmul(stream, Activations::kAsWeights);
  fmt::print(
      "multiply() with its conversion of rows, beside the product alone by cuBLASLt (best of any, best that does "
      "not split sums), and by the best shape of stream; microseconds\n");
  for (const Shape shape :
       {Shape{4096, 4096}, Shape{6144, 4096}, Shape{28672, 4096}, Shape{4096, 14336}, Shape{128256, 4096}}) {
    time_shape(matmul, stream, shape, Number::kBF16);
  }
  for (const int rows : {1, 4, 8, 16, 32, 64, 128, 512}) time_layers(matmul, stream, rows);
  for (const Shape shape : {Shape{768, 256}, Shape{4096, 1024}}) time_f32(matmul, stream, shape);
  return 0;
}

}  // namespace
}  // namespace kvasir::cuda

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    if (what == "check") return kvasir::cuda::Checker().run(kvasir::cuda::Sizes::kAll);
    if (what == "sanitize") return kvasir::cuda::Checker().run(kvasir::cuda::Sizes::kSmall);
    if (what == "time") return kvasir::cuda::time_all();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  fmt::print(stderr, "usage: matmul_bench check|sanitize|time\n");
  return 2;
}
