// Weights on a GPU, whatever their shape: what loading makes of a file's numbers, and products in a graph. There are
// none without a device.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backend/quant/row_codes.h"
#include "backend/weight_reader.h"
#include "support/cuda_data.h"
#include "support/cuda_matmul_fixture.h"

namespace kvasir::cuda {
namespace {

using testing::CudaRows;
using testing::download;

// Of as many devices as there are to try: one, or none.
class CudaWeightTest : public testing::CudaMatmulFixture, public ::testing::WithParamInterface<int> {};

std::vector<int> devices() { return testing::has_cuda_device() ? std::vector<int>{0} : std::vector<int>{}; }

TEST_P(CudaWeightTest, ALoadedWeightIsWhatTheFileSays) {
  std::mt19937 random(1);
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32, DType::kQ8_0, DType::kQ4_K}) {
    const int cols = is_quantized(type) ? 512 : 509;
    std::vector<std::byte> bytes(row_bytes(type, cols) * 40);
    for (std::byte& byte : bytes) byte = std::byte(random() % 0x38);  // no infinities, no NaNs
    const auto part = [&](int first, int rows) {
      return HostWeight{std::span(bytes).subspan(row_bytes(type, cols) * static_cast<size_t>(first)), type, rows,
                        cols};
    };
    const HostWeight stacked[] = {part(0, 33), part(33, 7)};
    const auto weight = matmul_->load(stacked);
    const std::vector<TokenId> tokens{0, 39, 32, 33, 5};
    const DeviceMemory ids(tokens.size() * sizeof(TokenId));
    check(cudaMemcpy(ids.data(), tokens.data(), ids.size(), cudaMemcpyHostToDevice), "uploading tokens");
    const CudaRows out(5, cols, 3, stream_);
    matmul_->embed(*weight, {reinterpret_cast<const TokenId*>(ids.data()), nullptr}, out.matrix);
    check(cudaStreamSynchronize(stream_), "embedding");
    const std::vector<float> got = download<float>(out.matrix.data, tokens.size() * static_cast<size_t>(cols));
    std::vector<float> want(static_cast<size_t>(cols));
    for (size_t t = 0; t < tokens.size(); ++t) {
      read_row(part(0, 40), tokens[t], want.data());
      for (size_t c = 0; c < want.size(); ++c) {
        const float tolerance = is_quantized(type) ? std::abs(want[c]) * 0x1p-11F + 0x1p-24F : 0.0F;
        ASSERT_NEAR(got[t * want.size() + c], want[c], tolerance) << kvasir::name_of(type) << ", token " << t;
      }
    }
  }
}

TEST_P(CudaWeightTest, ProductsCanBeCapturedAndReplayed) {
  const auto first = matmul_->make_random(512, 256, Number::kBF16, 1);
  const auto second = matmul_->make_random(256, 512, Number::kBF16, 2);
  const CudaRows x(4, 256, 3, stream_);
  const CudaRows middle(4, 512, 4, stream_);
  const CudaRows out(4, 256, 5, stream_);
  const CudaRows again(4, 256, 6, stream_);
  const auto both = [&](Matrix to) {
    matmul_->multiply(*first, x.matrix, nullptr, middle.matrix);
    matmul_->multiply(*second, middle.matrix, nullptr, to);
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
    EXPECT_TRUE(same_bits(out.matrix, again.matrix));
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

INSTANTIATE_TEST_SUITE_P(Once, CudaWeightTest, ::testing::ValuesIn(devices()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaWeightTest);

}  // namespace
}  // namespace kvasir::cuda
