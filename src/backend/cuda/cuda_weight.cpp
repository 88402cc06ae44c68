#include "backend/cuda/cuda_weight.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "backend/weight_reader.h"
#include "base/check.h"
#include "layout/codec_f16.h"

namespace kvasir::cuda {
namespace {

constexpr size_t kPartBytes = size_t{16} << 20;
constexpr float kLargestF16 = 65504.0F;

Number number_of(DType type, Activations activations) {
  if (activations == Activations::kF32 || type == DType::kF32) return Number::kF32;
  return type == DType::kBF16 ? Number::kBF16 : Number::kF16;
}

bool same_numbers(DType type, Number number) {
  return (type == DType::kF32 && number == Number::kF32) || (type == DType::kBF16 && number == Number::kBF16) ||
         (type == DType::kF16 && number == Number::kF16);
}

// A row as it lies on the device, without its padding.
void write_row(const HostWeight& from, int row, Number number, std::byte* to) {
  if (same_numbers(from.dtype, number)) {
    const size_t bytes = row_bytes(from.dtype, from.cols);
    std::memcpy(to, from.bytes.data() + bytes * static_cast<size_t>(row), bytes);
    return;
  }
  if (number == Number::kF32) return read_row(from, row, reinterpret_cast<float*>(to));
  CHECK(number == Number::kF16);
  std::vector<float> values(static_cast<size_t>(from.cols));
  read_row(from, row, values.data());
  auto* out = reinterpret_cast<CodecF16::Stored*>(to);
  for (const float value : values) *out++ = CodecF16::encode(std::clamp(value, -kLargestF16, kLargestF16));
}

int host_threads() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 16U)); }

}  // namespace

CudaWeight::CudaWeight(int outputs, int inputs, Number number)
    : Weight(outputs, inputs),
      ld_(padded(inputs)),
      number_(number),
      memory_(static_cast<size_t>(outputs) * static_cast<size_t>(ld_ * bytes_of(number))) {}

WeightLoader::WeightLoader(cudaStream_t stream, Activations activations)
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
  for (const HostWeight& weight : stacked) outputs += weight.rows;
  const HostWeight& first = stacked.front();
  auto out = std::make_unique<CudaWeight>(outputs, first.cols, number_of(first.dtype, activations_));
  int at = 0;
  for (const HostWeight& weight : stacked) {
    CHECK(weight.cols == first.cols && weight.dtype == first.dtype);
    CHECK(weight.bytes.size() >= row_bytes(weight.dtype, weight.cols) * static_cast<size_t>(weight.rows));
    copy_rows(weight, *out, at);
    at += weight.rows;
  }
  // Before the file may be closed, and before a kernel that starts early may read the weights.
  check(cudaStreamSynchronize(stream_), "copying weights to the device");
  return out;
}

void WeightLoader::copy_rows(const HostWeight& from, const CudaWeight& weight, int first_output) {
  const auto bytes = static_cast<size_t>(weight.ld() * bytes_of(weight.number()));
  const auto used = static_cast<size_t>(from.cols * bytes_of(weight.number()));
  if (bytes > kPartBytes) fail_input("a weight has rows of " + std::to_string(from.cols) + " numbers: too many");
  const int at_once = static_cast<int>(kPartBytes / bytes);
  for (int done = 0; done < from.rows; done += at_once) {
    Part& part = parts_[next_part_++ % parts_.size()];
    if (part.at == nullptr) {
      check(cudaMallocHost(reinterpret_cast<void**>(&part.at), kPartBytes), "allocating pinned memory");
      check(cudaEventCreateWithFlags(&part.copied, cudaEventDisableTiming), "creating an event");
    } else {
      check(cudaEventSynchronize(part.copied), "copying weights to the device");
    }
    const int count = std::min(at_once, from.rows - done);
    threads_.parallel_for(count, [&](std::int64_t i, int) {
      std::byte* to = part.at + static_cast<size_t>(i) * bytes;
      write_row(from, done + static_cast<int>(i), weight.number(), to);
      std::fill(to + used, to + bytes, std::byte{0});
    });
    std::byte* to = weight.data() + static_cast<size_t>(first_output + done) * bytes;
    check(cudaMemcpyAsync(to, part.at, static_cast<size_t>(count) * bytes, cudaMemcpyHostToDevice, stream_),
          "copying weights to the device");
    check(cudaEventRecord(part.copied, stream_), "copying weights to the device");
  }
}

}  // namespace kvasir::cuda
