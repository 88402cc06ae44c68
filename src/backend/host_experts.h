// Experts on a backend whose memory is the host's: rows are gathered by expert, so that each expert's rows are one
// product, and an expert that no row goes to is not read at all. A row's sum has the order of its own experts:
// neither the batch nor the other rows of an expert change a bit of it.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/router.h"

namespace kvasir {

class HostExperts {
 public:
  // `on` multiplies; its memory is the host's.
  void run(const ExpertsOp& op, Backend& on);

 private:
  void choose(const ExpertsOp& op);
  void run_expert(const ExpertsOp& op, int expert, Backend& on);
  void sum_up(const ExpertsOp& op) const;
  static Matrix grown(Buffer& buffer, int rows, int cols, Backend& on);

  std::vector<RoutedExpert> routes_;  // [rows][used]
  std::vector<int> by_expert_;        // indices into routes_: all of expert 0, then all of expert 1, …
  std::vector<int> first_;            // [experts + 1]: where an expert's begin in by_expert_
  Buffer x_;                          // [an expert's rows][hidden]
  Buffer gate_up_;                    // [an expert's rows][projected_width]
  Buffer y_;                          // [rows * used][hidden], in the order of by_expert_
  std::vector<int> place_;            // [rows][used]: the row of y_
};

}  // namespace kvasir
