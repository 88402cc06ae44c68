// Recurrent layers on the cpu: threads divide sequences, channels and columns of heads, and never a row's sums.
#pragma once

#include "backend/cpu/kernels.h"
#include "backend/recurrent_ops.h"
#include "base/thread_pool.h"

namespace kvasir::cpu {

class Recurrent {
 public:
  Recurrent(Isa isa, ThreadPool& pool) : kernels_(recurrent_kernels(isa)), pool_(pool) {}

  void run(const CausalConvOp& op);
  void run(const DecayOp& op);
  void run(const RecurrenceOp& op);
  void run(const StateRoundOp& op);
  void run(const StateEncodeOp& op);
  void run(const StateDecodeOp& op);

 private:
  template <class Body>
  void each_part(SequenceViews sequences, std::int64_t parts, const Body& body);

  RecurrentKernels kernels_;
  ThreadPool& pool_;
};

}  // namespace kvasir::cpu
