// Texts on their way to vectors or scores, as the HTTP layer drives them, and the bodies that vectors are sent in.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/embed_queue.h"
#include "server/access/admission.h"
#include "server/api/api_error.h"
#include "server/http/http_types.h"
#include "server/metrics.h"

namespace kvasir {

// What a reply is made of, once all vectors are there.
struct EmbedResult {
  std::vector<std::string> vectors;  // as JSON
  std::int64_t tokens = 0;           // of all texts
  std::chrono::nanoseconds took{};
};
using WriteVectors = std::function<std::string(const EmbedResult& result)>;

inline constexpr std::int64_t kMostEmbeddedTokens = 300'000;  // of all texts of a request

class EmbedWork : public Work {
 public:
  struct Asked {
    std::uint32_t tenant = 0;
    std::vector<EmbedQueue::Text> texts;
    const RowHead* head = nullptr;  // what is made of them; it outlives the work
    EmbedQueue::MakePart as_json;   // of that
    WriteVectors write;             // of all of them; on the sockets' thread, and quick
    Dialect dialect = Dialect::kOpenAi;
    Admission::Ticket ticket;
  };

  // The queue and the metrics outlive it. What makes `texts` of the request has checked them.
  EmbedWork(EmbedQueue& queue, Metrics& metrics, Asked asked);
  ~EmbedWork() override;

  void on_event(std::function<void()> wake) override;
  Progress take() override;
  Progress give_up(GiveUp why) override;
  std::optional<TokenCounts> tokens() const override { return TokenCounts{tokens_, 0, 0}; }

 private:
  using Clock = std::chrono::steady_clock;
  struct State;  // what the engine's thread leaves

  Progress failed(const ApiError& error) const;

  EmbedQueue& queue_;
  Metrics& metrics_;
  WriteVectors write_;
  Dialect dialect_;
  std::int64_t tokens_ = 0;
  std::int64_t texts_ = 0;
  Clock::time_point began_ = Clock::now();
  std::shared_ptr<State> state_;
  EmbedQueue::JobId job_ = 0;
};

// The shortest text that reads back as the same numbers: "[0.25,-1]"
std::string vector_as_json(std::span<const float> vector);

// The numbers' bytes, little endian, as OpenAI's clients ask for them.
std::string vector_as_base64(std::span<const float> vector);

}  // namespace kvasir
