// Tokens that were drawn: on the device until the next draw, for the batch that continues them, and on the host,
// where the kernel that draws them writes them, too, until somebody takes them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/buffer.h"
#include "backend/cuda/device_memory.h"

namespace kvasir::cuda {

class DrawnTokens {
 public:
  explicit DrawnTokens(cudaStream_t stream) : stream_(stream), last_drawn_(kFirstRows * sizeof(TokenId)) {}

  // Of the last draw: what was drawn before is lost for batches that come behind it.
  TokenId* on_device() const { return reinterpret_cast<TokenId*>(last_drawn_.data()); }

  // A draw that the caller puts on the stream: where it is to leave its tokens on the host.
  struct Draw {
    DrawTicket ticket = kNoDraw;
    TokenId* on_host = nullptr;
  };
  Draw add(size_t rows);
  DrawTicket last() const { return last_; }
  // Behind the draw: a number to be told with its tokens.
  void note(DrawTicket ticket, std::uint64_t number) { find(ticket).noted = number; }
  // Waits for them, and not for what is behind them. Returns the number that was noted, or 0.
  std::uint64_t take(DrawTicket ticket, std::span<TokenId> tokens);

 private:
  static constexpr size_t kFirstRows = 1024;
  static constexpr TokenId kUnknown = std::numeric_limits<TokenId>::min();  // no kernel draws it

  struct Return {
    DrawTicket ticket = kNoDraw;  // kNoDraw: it may be used again
    size_t rows = 0;              // that have room
    std::uint64_t noted = 0;
    Buffer tokens;  // [rows] of TokenId, pinned; kUnknown until they are drawn
  };
  Return& free_return(size_t rows);
  Return& find(DrawTicket ticket);
  TokenId wait_for(TokenId& at) const;
  void look_at_device(TokenId& at) const;

  cudaStream_t stream_;
  DeviceMemory last_drawn_;
  DrawTicket last_ = kNoDraw;
  std::vector<std::unique_ptr<Return>> returns_;
};

}  // namespace kvasir::cuda
