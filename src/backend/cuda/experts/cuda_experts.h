// Experts on the device: rows are routed, sorted by expert and multiplied there, so that a decode step with experts
// is a graph as any other. A row's experts and bits depend on that row alone (expert_args.h).
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "backend/cuda/experts/expert_args.h"
#include "backend/cuda/runtime/device_memory.h"

namespace kvasir::cuda {

class CudaExperts {
 public:
  explicit CudaExperts(cudaStream_t stream) : stream_(stream) {}

  // Once a layer was met with as many rows, it neither waits nor allocates, and can be captured.
  void run(const ExpertsOp& op);

  // The workspace's address: it changes when rows outgrow it.
  const void* workspace() const { return workspace_.data(); }

 private:
  using Kind = std::pair<Number, WeightQuantization>;
  // The matrices of one role, of all experts.
  struct Role {
    size_t first = 0;           // in the table
    std::vector<Kind> kinds{};  // that there are
  };
  // A layer's matrices as kernels find them.
  struct Table {
    std::vector<ExpertMatrix> host;
    DeviceMemory device;
    Role gate, up, down;  // up: nothing where gates and ups are one

    const ExpertMatrix* of(const Role& role) const {
      return reinterpret_cast<const ExpertMatrix*>(device.data()) + role.first;
    }
  };
  // Where a pass has what.
  struct Space {
    RoutedPairs pairs;
    std::byte* x = nullptr;
    std::byte* activated = nullptr;
    float* gate_up = nullptr;
    float* y = nullptr;
  };

  const Table& table_of(const ExpertsOp& op);
  static void add_role(Role& role, std::span<const ExpertWeights> experts, const Weight* ExpertWeights::*of,
                       std::vector<ExpertMatrix>& to);
  Space space_for(const ExpertsOp& op, int rows);
  void run_rows(const ExpertsOp& op, const Table& table, int first, int rows);
  void multiply_gates(const ExpertsOp& op, const Table& table, const Space& space, Matrix x);
  void multiply(ExpertGemm gemm, const Role& role);

  cudaStream_t stream_;
  std::map<const ExpertWeights*, Table> tables_;
  DeviceMemory workspace_;
};

}  // namespace kvasir::cuda
