// Sampled tokens: on the device until the next sampling, for the batch that continues them, and in pinned host memory
// until the host takes them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/buffer.h"
#include "backend/cuda/runtime/device_memory.h"

namespace kvasir::cuda {

class SampledTokens {
 public:
  explicit SampledTokens(cudaStream_t stream) : stream_(stream), last_sampled_(kFirstRows * sizeof(TokenId)) {}

  // Tokens of the last sampling; earlier ones are lost.
  TokenId* on_device() const { return reinterpret_cast<TokenId*>(last_sampled_.data()); }

  // A sampling that the caller enqueues, and where it writes its tokens on the host.
  struct Ticket {
    SampleTicket ticket = kNoSample;
    TokenId* on_host = nullptr;
  };
  Ticket add(size_t rows);
  SampleTicket last() const { return last_; }
  // Attaches a number that take() returns.
  void note(SampleTicket ticket, std::uint64_t number) { find(ticket).noted = number; }
  // Waits for the tokens, not for later work. Returns the attached number, or 0.
  std::uint64_t take(SampleTicket ticket, std::span<TokenId> tokens);

 private:
  static constexpr size_t kFirstRows = 1024;
  static constexpr TokenId kUnknown = std::numeric_limits<TokenId>::min();  // no kernel writes it

  struct HostTokens {
    SampleTicket ticket = kNoSample;  // kNoSample: free
    size_t rows = 0;                  // capacity
    std::uint64_t noted = 0;
    Buffer tokens;  // [rows] of TokenId, pinned; kUnknown until they are sampled
  };
  HostTokens& free_host_tokens(size_t rows);
  HostTokens& find(SampleTicket ticket);
  TokenId wait_for(TokenId& at) const;
  void look_at_device(TokenId& at) const;

  cudaStream_t stream_;
  DeviceMemory last_sampled_;
  SampleTicket last_ = kNoSample;
  std::vector<std::unique_ptr<HostTokens>> host_tokens_;
};

}  // namespace kvasir::cuda
