// Experts on the cpu: each expert's rows are one product, and an expert that no row goes to is not read at all. The
// products of several experts are one batch, so that threads wait for each other a few times a layer. A row's sum has
// the order of its own experts: neither the batch nor the other rows of an expert change a bit of it.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_matmul.h"
#include "backend/router.h"

namespace kvasir::cpu {

class Experts {
 public:
  Experts(Isa isa, Matmul& matmul, ThreadPool& pool) : kernels_(row_kernels(isa)), matmul_(matmul), pool_(pool) {}

  void run(const ExpertsOp& op);

 private:
  void choose(const ExpertsOp& op);
  void run_some(const ExpertsOp& op, int first, int last);
  void project(const ExpertsOp& op, int first, int last, Matrix gate_up);
  void bend(const ExpertsOp& op, int expert, Matrix gate_up) const;
  SomeRows inputs_of(const ExpertsOp& op, int expert, int before);
  void sum_up(const ExpertsOp& op, int row) const;
  int first_of(int expert) const { return first_[static_cast<size_t>(expert)]; }
  int rows_of(int expert) const { return first_of(expert + 1) - first_of(expert); }
  template <class Body>
  void each_row(int rows, const Body& body) const;

  RowKernels kernels_;
  Matmul& matmul_;
  ThreadPool& pool_;
  std::vector<RoutedExpert> routes_;  // [rows][used]
  std::vector<int> first_;            // [experts + 1]: where an expert's begin among the rows of all experts
  std::vector<int> place_;            // [rows][used]: the row among those
  std::vector<int> from_;             // of each of those, the row of x
  std::vector<float> weight_;         // of each of those
  std::vector<Product> products_;
  Buffer x_;        // [rows of some experts][hidden], where experts read weighted rows
  Buffer gate_up_;  // [rows of some experts][projected_width]
  Buffer y_;        // [rows * used][hidden], all of expert 0, then all of expert 1, …
};

}  // namespace kvasir::cpu
