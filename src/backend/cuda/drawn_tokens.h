// Tokens that were drawn: on the device until the next draw, for the batch that continues them, and on the host,
// where the kernel that draws them writes them, too, until somebody takes them. Its rules it reads from there as
// well: a few bytes a row, for which a copy would take longer than the kernel waits.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/buffer.h"
#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/device_memory.h"

namespace kvasir::cuda {

class DrawnTokens {
 public:
  explicit DrawnTokens(cudaStream_t stream) : stream_(stream), last_drawn_(kFirstRows * sizeof(TokenId)) {}

  const TokenId* on_device() const { return reinterpret_cast<const TokenId*>(last_drawn_.data()); }
  // Puts a draw, a rule for each row, on the stream. What was drawn before is lost for batches that come behind.
  DrawTicket add(Matrix logits, std::span<const DrawRule> rules);
  DrawTicket last() const { return last_; }
  // Waits for them, and not for what is behind them.
  void take(DrawTicket ticket, std::span<TokenId> tokens);

 private:
  static constexpr size_t kFirstRows = 1024;

  struct Return {
    DrawTicket ticket = kNoDraw;  // kNoDraw: it may be used again
    size_t rows = 0;              // that have room
    Buffer rules;                 // [rows] of DrawRule, pinned
    Buffer tokens;                // [rows] of TokenId, pinned
    Event there;
  };
  Return& free_return(size_t rows);

  cudaStream_t stream_;
  DeviceMemory last_drawn_;
  DrawTicket last_ = kNoDraw;
  std::vector<std::unique_ptr<Return>> returns_;
};

}  // namespace kvasir::cuda
