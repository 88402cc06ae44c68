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
};

struct TokenNews {
  size_t choice = 0;
  TokenId token = -1;
  FinishReason finish = FinishReason::kNone;
  RecordCounts counts{};
  std::optional<RequestRecord> record{};  // with the first news, the last, and where more than the counts has changed
  std::optional<TokenLogprobs> logprobs{};  // of the token, if asked for
  std::chrono::steady_clock::time_point at;
};

// All methods may be called from any thread. The wake function is called under the lock, so that after close() it is
// never called again; it must do no more than hand on.
class Mailbox {
 public:
  void push(TokenNews news) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    news_.push_back(std::move(news));
    if (news_.size() == 1 && wake_) wake_();
  }

  std::vector<TokenNews> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(news_, {});
  }

  void on_news(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    if (!news_.empty() && wake_) wake_();
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    wake_ = nullptr;
    news_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<TokenNews> news_;  // under mutex_
  std::function<void()> wake_;   // under mutex_
  bool closed_ = false;          // under mutex_
};

}  // namespace kvasir
