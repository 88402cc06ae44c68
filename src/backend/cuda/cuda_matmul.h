// The matrix products of the CUDA backend.
//
// A row's bits depend on that row and the weights alone (product.h, f32_product.h), whichever kernel runs. Work is
// enqueued on the stream; nothing waits, allocates or measures once a shape was met with as many rows as now, so
// warmed up calls can be captured in a graph. Calls come from one thread.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "backend/activations.h"
#include "backend/backend.h"
#include "backend/cuda/coded_products.h"
#include "backend/cuda/convert_rows.h"
#include "backend/cuda/cuda_weight.h"
#include "backend/cuda/product_tuner.h"
#include "base/ids.h"

namespace kvasir::cuda {

class CudaMatmul {
 public:
  // On the device in use.
  CudaMatmul(cudaStream_t stream, Activations activations);

  // See Backend::load(); what becomes of each type: cuda_weight.h. Done when it returns.
  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked);

  // Random numbers of about the size of a trained model's, made on the device: to measure shapes without a file.
  std::unique_ptr<Weight> make_random(int outputs, int inputs, Number number, std::uint64_t seed);

  // x, out and bias lie on the device; bias may be null.
  void multiply(const Weight& weight, Matrix x, const float* bias, Matrix out);

  // The same with rows that are nowhere but in the room that `fill` is given: [rows][inputs], as convert_rows() would
  // leave them. REQUIRES: can_fill().
  using Fill = std::function<void(RowsRoom)>;
  void multiply(const Weight& weight, const Fill& fill, const float* bias, Matrix out);
  static bool can_fill(const Weight& weight, int rows);

  // out = down * (silu(gate) * up), of rows of gates and ups, which are rounded where rows become bf16 (swiglu()).
  void multiply_gated(const Weight& down, Matrix gate, Matrix up, const float* bias, Matrix out);

  // The same with gates and ups that are products of the rows that `fill` is given room for; `between`, as many
  // numbers as there are of them, holds anything afterwards. REQUIRES: can_gate().
  void multiply_gated(const GatedLayer& layer, const Fill& fill, Matrix between, Matrix out);
  static bool can_gate(const GatedLayer& layer, int rows);

  // out: [tokens][inputs of the table].
  void embed(const Weight& table, RowTokens tokens, Matrix out);

  // Room for a kernel to leave x as a product wants it, as well as or instead of where x is: the next multiply() of x
  // takes it from there. None where no product with rows of that length is known. Whoever writes to x afterwards, or
  // to anything else, calls forget_rows().
  RowsRoom room_for(Matrix x);
  void forget_rows() { ready_ = {}; }

  // Where rows lie while they are multiplied: they change when there are more than ever before.
  std::pair<const void*, const void*> rows_at() const { return {rows_.data(), gated_.data()}; }

  // Whether cuBLASLt was found: for descriptions. Without it many rows go slower, with the same bits.
  bool has_cublas_lt() const { return tuner_.lt().available(); }

  // What multiply() does with so many rows: "stream 32x2 b2" (StreamShape), "cublasLt", "mma", and with codes
  // "codes 32x2 b2" or "widened". For reports, and to have it measured (ProductTuner, CodedProducts) before the
  // device's memory is given to something else.
  std::string choice(const Weight& weight, int rows);

 private:
  Product product_of(const CudaWeight& weight, int rows);
  Product product_of(const CudaWeight& weight, int rows, DeviceMemory& room);
  bool knows(const CudaWeight& weight, const Product& product) const;
  void multiply_some(const CudaWeight& weight, Matrix x, const float* bias, Matrix out);  // kMostRows at most
  RowsRoom make_room(Matrix x, Number number);
  void multiply_f32_rows(const CudaWeight& weight, Matrix x, const float* bias, Matrix out);

  cudaStream_t stream_;
  WeightLoader loader_;
  ProductTuner tuner_;
  CodedProducts coded_;
  void run(const CudaWeight& weight, const Product& product, const Fill& fill);

  DeviceMemory rows_;   // of the call at hand, as they meet its weights
  DeviceMemory gated_;  // likewise, those that are gated while others are in rows_
  struct Ready {
    Matrix x;  // without data: none
    Number number = Number::kBF16;
  };
  Ready ready_;                         // what lies in rows_ already
  std::map<int, Number> last_numbers_;  // by the length of rows: what the last product made of them
};

}  // namespace kvasir::cuda
