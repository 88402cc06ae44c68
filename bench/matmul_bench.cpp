// Products of weights with rows, without any model: how fast each type of weight is read and multiplied, beside what
// the machine reads and multiplies at best in the same run.
//
//   matmul_bench [--types q4_0,q8_0] [--rows 1,16,512] [-t 2] [-r 5] [--isa auto] [--mib 256]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cpu/machine_limits.h"
#include "backend/make_backend.h"
#include "backend/quant/encode.h"

namespace kvasir {
namespace {

constexpr int kInputs = 2048;

struct Options {
  std::vector<std::string> types = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "q6_k"};
  std::vector<int> rows = {1, 16, 512};
  int threads = 2;
  int repeats = 5;
  std::string isa = "auto";
  int mib = 256;  // of weights: far beyond the caches
};

std::vector<float> random_floats(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

// A matrix of about so many MiB: 64 random rows, over and over.
std::unique_ptr<Weight> make_weight(Backend& backend, DType type, int mib) {
  constexpr size_t kRandomRows = 64;
  const size_t row = row_bytes(type, kInputs);
  const size_t outputs = (static_cast<size_t>(mib) << 20) / row / kRandomRows * kRandomRows;
  const std::vector<float> values = random_floats(kRandomRows * kInputs);
  std::vector<std::byte> bytes(outputs * row);
  for (size_t r = 0; r < kRandomRows; ++r) encode_row(type, &values[r * kInputs], kInputs, &bytes[r * row]);
  for (size_t r = kRandomRows; r < outputs; ++r) {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>((r % kRandomRows) * row), row,
                bytes.begin() + static_cast<std::ptrdiff_t>(r * row));
  }
  const HostWeight host{bytes, type, static_cast<int>(outputs), kInputs};
  return backend.load({&host, 1});
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void measure(Backend& backend, DType type, const Options& options) {
  const std::unique_ptr<Weight> weight = make_weight(backend, type, options.mib);
  MachineLimits limits(parse_isa(options.isa), options.threads, {weight->memory()});
  const auto bytes = static_cast<double>(weight->memory().size());
  for (const int rows : options.rows) {
    std::vector<float> x = random_floats(static_cast<size_t>(rows) * kInputs);
    std::vector<float> y(static_cast<size_t>(rows) * static_cast<size_t>(weight->outputs()));
    const Matrix in{x.data(), rows, kInputs, kInputs};
    const Matrix out{y.data(), rows, weight->outputs(), weight->outputs()};
    const double flops = 2.0 * rows * kInputs * weight->outputs();
    std::vector<double> seconds;
    std::vector<double> read_share;
    std::vector<double> flop_share;
    backend.run(MatmulOp{weight.get(), in, nullptr, out});
    for (int i = 0; i < options.repeats; ++i) {
      const double read = limits.read_bytes_per_second();
      const double multiply = limits.flops_per_second(type);
      seconds.push_back(seconds_of([&] { backend.run(MatmulOp{weight.get(), in, nullptr, out}); }));
      read_share.push_back(bytes / seconds.back() / read);
      flop_share.push_back(flops / seconds.back() / multiply);
    }
    const double taken = median(seconds);
    fmt::print("{:<6} {:>5} {:>9.2f} {:>9.1f} {:>7.0f}% {:>11.0f} {:>7.0f}%\n", name_of(type), rows, taken * 1e3,
               bytes / taken / 1e9, median(read_share) * 100, flops / taken / 1e9, median(flop_share) * 100);
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Products of weights with rows");
  app.add_option("--types", options.types)->delimiter(',');
  app.add_option("--rows", options.rows)->delimiter(',');
  app.add_option("-t,--threads", options.threads);
  app.add_option("-r,--repeats", options.repeats);
  app.add_option("--isa", options.isa);
  app.add_option("--mib", options.mib);
  CLI11_PARSE(app, argc, argv);
  BackendOptions backend_options;
  backend_options.threads = options.threads;
  backend_options.isa = options.isa;
  const std::unique_ptr<Backend> backend = make_backend(backend_options);
  fmt::print("{}, medians of {}\n", backend->description(), options.repeats);
  fmt::print("{:<6} {:>5} {:>9} {:>9} {:>8} {:>11} {:>8}\n", "type", "rows", "ms", "GB/s", "of read", "GFLOP/s",
             "of peak");
  for (const WeightType& type : kWeightTypes) {
    if (std::ranges::find(options.types, type.name) != options.types.end()) measure(*backend, type.type, options);
  }
  return 0;
}

}  // namespace
}  // namespace kvasir

int main(int argc, char** argv) { return kvasir::run(argc, argv); }
