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
  // draw(on the device, on the host) puts a draw of so many rows on the stream, which writes its tokens to both. What
  // was drawn before is lost for batches that come behind.
  template <class Draw>
  DrawTicket add(size_t rows, const Draw& draw) {
    last_drawn_.grow_to(rows * sizeof(TokenId));
    Return& way = free_return(rows);
    draw(reinterpret_cast<TokenId*>(last_drawn_.data()), way.tokens.get());
    way.there.mark(stream_);
    way.ticket = ++last_;
    return way.ticket;
  }
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
};

}  // namespace kvasir::cuda
