// The thread edge out: what the engine's thread says about one API request, until the server's thread takes it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace kvasir {

// The part of a record that every token changes.
struct RecordCounts {
  std::int64_t computed_tokens = 0;
  int preemptions = 0;
  int steps = 0;
  std::int64_t draft_tokens = 0;
  std::int64_t accepted_tokens = 0;
};

struct TokenEvent {
  size_t choice = 0;
  TokenId token = -1;
  FinishReason finish = FinishReason::kNone;
  RecordCounts counts{};
  std::optional<RequestRecord>
      record{};  // with the first event, the last, and where more than the counts has changed
  std::optional<TokenLogprobs> logprobs{};  // of the token, if asked for
  std::chrono::steady_clock::time_point at;
};

// What nobody takes is bounded: a client that does not read holds up its own answer's taking, and beyond the bound
// the answer is given up. From then on only ends are kept.
//
// All methods may be called from any thread. The wake function is called under the lock, so that after close() it is
// never called again; it must do no more than hand on.
class TokenQueue {
 public:
  static constexpr size_t kMostUnread = size_t{32} << 20;  // bytes

  // False: the answer must be given up.
  bool push(TokenEvent event) {
    const std::lock_guard lock(mutex_);
    if (closed_) return true;
    if (given_up_ && event.finish == FinishReason::kNone) return false;
    unread_ += bytes_of(event);
    events_.push_back(std::move(event));
    if (events_.size() == 1 && wake_) wake_();
    given_up_ = given_up_ || unread_ > kMostUnread;
    return !given_up_;
  }

  std::vector<TokenEvent> take() {
    const std::lock_guard lock(mutex_);
    unread_ = 0;
    return std::exchange(events_, {});
  }

  void on_event(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    if (!events_.empty() && wake_) wake_();
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    wake_ = nullptr;
    events_.clear();
  }

 private:
  static size_t bytes_of(const TokenEvent& event) {
    const size_t likeliest = event.logprobs ? event.logprobs->top.size() : 0;
    return sizeof(TokenEvent) + likeliest * sizeof(event.logprobs->top[0]);
  }

  std::mutex mutex_;
  std::vector<TokenEvent> events_;  // under mutex_
  size_t unread_ = 0;               // under mutex_: bytes of them
  bool given_up_ = false;           // under mutex_
  std::function<void()> wake_;      // under mutex_
  bool closed_ = false;             // under mutex_
};

}  // namespace kvasir
