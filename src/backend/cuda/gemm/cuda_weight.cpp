#include "backend/cuda/gemm/cuda_weight.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "backend/cuda/gemm/w8/w8_layout.h"
#include "backend/quant/row_codes.h"
#include "backend/weight_reader.h"
#include "base/check.h"
#include "layout/codec_bf16.h"
#include "layout/codec_f16.h"

namespace kvasir::cuda {
namespace {

constexpr size_t kPartBytes = size_t{16} << 20;
constexpr float kLargestF16 = 65504.0F;

Number number_of(DType type, ActivationPrecision activations) {
  if (activations == ActivationPrecision::kF32 || type == DType::kF32) return Number::kF32;
  // Powers of two may be beyond binary16; with four bits each they are exact in bf16.
  return type == DType::kBF16 || type == DType::kMXFP4 ? Number::kBF16 : Number::kF16;
}

bool same_numbers(DType type, Number number) {
  return (type == DType::kF32 && number == Number::kF32) || (type == DType::kBF16 && number == Number::kBF16) ||
         (type == DType::kF16 && number == Number::kF16);
}

// Writes a row as the device wants it, without padding.
void write_row(const HostWeight& from, int row, Number number, std::byte* to) {
  if (from.form == WeightQuantization::kAsStored && same_numbers(from.dtype, number)) {
    const size_t bytes = row_bytes(from.dtype, from.cols);
    std::memcpy(to, from.bytes.data() + bytes * static_cast<size_t>(row), bytes);
    return;
  }
  if (number == Number::kF32) return read_kept_row(from, row, reinterpret_cast<float*>(to));
  std::vector<float> values(static_cast<size_t>(from.cols));
  read_row(from, row, values.data());
  auto* out = reinterpret_cast<std::uint16_t*>(to);
  for (const float value : values) {
    *out++ = number == Number::kBF16 ? CodecBF16::encode(value)
                                     : CodecF16::encode(std::clamp(value, -kLargestF16, kLargestF16));
  }
}

struct StackedRow {
  const HostWeight* weight = nullptr;
  int row = 0;
};
StackedRow row_of(std::span<const HostWeight> stacked, int row) {
  size_t at = 0;
  while (row >= stacked[at].rows) row -= stacked[at++].rows;
  return {&stacked[at], row};
}

// Writes the atoms of up to 8 outputs from `first` on, and their scales.
void write_atoms(std::span<const HostWeight> stacked, int first, std::byte* to, std::span<float> scales) {
  const int cols = stacked.front().cols;
  std::fill_n(to, static_cast<size_t>(atoms_along(cols)) * kAtomBytes, std::byte{0});
  std::vector<float> values(static_cast<size_t>(cols));
  std::vector<std::uint8_t> codes(static_cast<size_t>(cols));
  for (size_t i = 0; i < scales.size(); ++i) {
    const StackedRow from = row_of(stacked, first + static_cast<int>(i));
    read_row(*from.weight, from.row, values.data());
    scales[i] = encode_codes(from.weight->form, values, codes.data());
    for (int k = 0; k < cols; ++k) {
      to[w8_offset(static_cast<int>(i), k)] = static_cast<std::byte>(codes[static_cast<size_t>(k)]);
    }
  }
}

int host_threads() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 16U)); }

}  // namespace

CudaWeight::CudaWeight(int outputs, int inputs, Number number)
    : Weight(outputs, inputs),
      ld_(padded(inputs)),
      number_(number),
      memory_(static_cast<size_t>(outputs) * static_cast<size_t>(ld_ * bytes_of(number))) {}

CudaWeight::CudaWeight(int outputs, int inputs, WeightQuantization form)
    : Weight(outputs, inputs),
      ld_(padded(inputs)),
      number_(Number::kBF16),
      form_(form),
      memory_(w8_bytes(outputs, inputs) + static_cast<size_t>(outputs) * sizeof(float)) {}

float* CudaWeight::scales() const { return reinterpret_cast<float*>(memory_.data() + w8_bytes(outputs(), inputs())); }

WeightLoader::WeightLoader(cudaStream_t stream, ActivationPrecision activations)
    : stream_(stream), activations_(activations), threads_(host_threads()) {}

WeightLoader::~WeightLoader() {
  for (const Part& part : parts_) {
    if (part.copied != nullptr) cudaEventDestroy(part.copied);
    if (part.at != nullptr) cudaFreeHost(part.at);
  }
}

std::unique_ptr<CudaWeight> WeightLoader::load(std::span<const HostWeight> stacked) {
  CHECK(!stacked.empty());
  int outputs = 0;
  const HostWeight& first = stacked.front();
  for (const HostWeight& weight : stacked) {
    CHECK(weight.cols == first.cols && weight.dtype == first.dtype && weight.form == first.form);
    CHECK(weight.bytes.size() >= row_bytes(weight.dtype, weight.cols) * static_cast<size_t>(weight.rows));
    outputs += weight.rows;
  }
  const bool numbers = first.form == WeightQuantization::kAsStored || activations_ == ActivationPrecision::kF32;
  return numbers ? load_numbers(stacked, outputs) : load_w8(stacked, outputs);
}

std::unique_ptr<CudaWeight> WeightLoader::load_numbers(std::span<const HostWeight> stacked, int outputs) {
  const HostWeight& first = stacked.front();
  auto out = std::make_unique<CudaWeight>(outputs, first.cols, number_of(first.dtype, activations_));
  const auto bytes = static_cast<size_t>(out->ld() * bytes_of(out->number()));
  const auto used = static_cast<size_t>(first.cols * bytes_of(out->number()));
  copy({out->data(), bytes, outputs}, [&](int row, std::byte* to) {
    const StackedRow from = row_of(stacked, row);
    write_row(*from.weight, from.row, out->number(), to);
    std::fill(to + used, to + bytes, std::byte{0});
  });
  // The file may be closed after this, and kernels may load weights before pdl_wait().
  check(cudaStreamSynchronize(stream_), "copying weights to the device");
  return out;
}

std::unique_ptr<CudaWeight> WeightLoader::load_w8(std::span<const HostWeight> stacked, int outputs) {
  const HostWeight& first = stacked.front();
  auto out = std::make_unique<CudaWeight>(outputs, first.cols, first.form);
  std::vector<float> scales(static_cast<size_t>(outputs));
  const auto bytes = static_cast<size_t>(atoms_along(first.cols)) * kAtomBytes;
  copy({out->data(), bytes, atoms_across(outputs)}, [&](int atom, std::byte* to) {
    const int at = atom * kAtomOutputs;
    const auto count = static_cast<size_t>(std::min(kAtomOutputs, outputs - at));
    write_atoms(stacked, at, to, std::span(scales).subspan(static_cast<size_t>(at), count));
  });
  check(cudaMemcpyAsync(out->scales(), scales.data(), scales.size() * sizeof(float), cudaMemcpyHostToDevice, stream_),
        "copying weights to the device");
  check(cudaStreamSynchronize(stream_), "copying weights to the device");  // as above
  return out;
}

void WeightLoader::copy(const Slices& slices, const std::function<void(int slice, std::byte* to)>& write) {
  if (slices.bytes > kPartBytes) fail_input("a weight has rows of too many numbers");
  const int at_once = static_cast<int>(kPartBytes / slices.bytes);
  for (int done = 0; done < slices.count; done += at_once) {
    Part& part = parts_[next_part_++ % parts_.size()];
    if (part.at == nullptr) {
      check(cudaMallocHost(reinterpret_cast<void**>(&part.at), kPartBytes), "allocating pinned memory");
      check(cudaEventCreateWithFlags(&part.copied, cudaEventDisableTiming), "creating an event");
    } else {
      check(cudaEventSynchronize(part.copied), "copying weights to the device");
    }
    const int count = std::min(at_once, slices.count - done);
    threads_.parallel_for(count, [&](std::int64_t i, int) {
      write(done + static_cast<int>(i), part.at + static_cast<size_t>(i) * slices.bytes);
    });
    std::byte* to = slices.to + static_cast<size_t>(done) * slices.bytes;
    check(cudaMemcpyAsync(to, part.at, static_cast<size_t>(count) * slices.bytes, cudaMemcpyHostToDevice, stream_),
          "copying weights to the device");
    check(cudaEventRecord(part.copied, stream_), "copying weights to the device");
  }
}

}  // namespace kvasir::cuda
