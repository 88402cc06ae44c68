// Tokens that were drawn: on the device until the next draw, for the batch that continues them, and on the host,
// where the kernel that draws them writes them, too, until somebody takes them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/device_memory.h"

namespace kvasir::cuda {

class DrawnTokens {
 public:
  explicit DrawnTokens(cudaStream_t stream) : stream_(stream), last_drawn_(kFirstRows * sizeof(TokenId)) {}

  const TokenId* on_device() const { return reinterpret_cast<const TokenId*>(last_drawn_.data()); }
  // Where the next draw of so many rows goes, and goes again: on the device, and on the host. What was drawn before
  // is lost for batches that come behind. REQUIRES: sent() follows, before anything else
  struct Room {
    TokenId* device;
    TokenId* host;
  };
  Room room(size_t rows);
  // The draw is on the stream.
  DrawTicket sent();
  DrawTicket last() const { return last_; }
  // Waits for them, and not for what is behind them.
  void take(DrawTicket ticket, std::span<TokenId> tokens);

 private:
  static constexpr size_t kFirstRows = 1024;

  struct FreePinned {
    void operator()(TokenId* at) const { cudaFreeHost(at); }
  };
  struct Return {
    DrawTicket ticket = kNoDraw;  // kNoDraw: it may be used again
    std::unique_ptr<TokenId, FreePinned> tokens;
    size_t rows = 0;  // that have room
    Event there;
  };
  Return& free_return(size_t rows);

  cudaStream_t stream_;
  DeviceMemory last_drawn_;
  DrawTicket last_ = kNoDraw;
  std::vector<std::unique_ptr<Return>> returns_;
  Return* next_ = nullptr;  // that of the last room()
};

}  // namespace kvasir::cuda
