#include "server/answer/embed_work.h"

#include <fmt/format.h>

#include <bit>
#include <iterator>
#include <mutex>
#include <utility>

#include "text/base64.h"

namespace kvasir {

// The wake function is called under the lock, so that it is never called again once the work is gone.
struct EmbedWork::State {
  std::mutex mutex;
  std::function<void()> wake;                  // under mutex
  std::optional<EmbedQueue::Outcome> outcome;  // under mutex
  Admission::Ticket ticket;                    // until the work is done, or given up
};

EmbedWork::EmbedWork(EmbedQueue& queue, Metrics& metrics, Asked asked)
    : queue_(queue),
      metrics_(metrics),
      write_(std::move(asked.write)),
      dialect_(asked.dialect),
      texts_(std::ssize(asked.texts)),
      state_(std::make_shared<State>()) {
  for (const EmbedQueue::Text& text : asked.texts) tokens_ += std::ssize(text.tokens);
  state_->ticket = std::move(asked.ticket);
  const auto on_done = [state = state_](EmbedQueue::Outcome outcome) {
    const std::lock_guard lock(state->mutex);
    state->outcome = std::move(outcome);
    if (state->wake) state->wake();
  };
  job_ = queue_.submit({asked.tenant, std::move(asked.texts), asked.head, std::move(asked.as_json), on_done});
}

EmbedWork::~EmbedWork() {
  queue_.cancel(job_);
  const std::lock_guard lock(state_->mutex);
  state_->wake = {};
}

void EmbedWork::on_event(std::function<void()> wake) {
  const std::lock_guard lock(state_->mutex);
  state_->wake = std::move(wake);
  if (state_->outcome) state_->wake();
}

Work::Progress EmbedWork::take() {
  std::optional<EmbedQueue::Outcome> outcome;
  {
    const std::lock_guard lock(state_->mutex);
    outcome = std::exchange(state_->outcome, std::nullopt);
  }
  if (!outcome) return {};
  if (!outcome->failure.empty()) {
    return failed(ApiError({.status = 500, .type = "server_error"}, "the step failed: " + outcome->failure));
  }
  metrics_.embedded(texts_, tokens_);
  return {write_({std::move(outcome->parts), tokens_, Clock::now() - began_}), true, 200};
}

Work::Progress EmbedWork::give_up(GiveUp why) {
  queue_.cancel(job_);
  if (why == GiveUp::kShutdown) {
    return failed(ApiError({.status = 503, .type = "unavailable_error"}, "the server is shutting down"));
  }
  return failed(ApiError({.status = 504, .type = "timeout_error", .code = "request_timeout"},
                         "this took longer than the server's --request-timeout"));
}

Work::Progress EmbedWork::failed(const ApiError& error) const {
  return {error_body(dialect_, error), true, error.reply().status};
}

std::string vector_as_json(std::span<const float> vector) {
  fmt::memory_buffer out;
  for (const float x : vector) fmt::format_to(std::back_inserter(out), "{}{}", out.size() == 0 ? '[' : ',', x);
  out.push_back(']');
  return fmt::to_string(out);
}

std::string vector_as_base64(std::span<const float> vector) {
  static_assert(std::endian::native == std::endian::little);
  const std::span<const std::byte> bytes = std::as_bytes(vector);
  return encode_base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace kvasir
