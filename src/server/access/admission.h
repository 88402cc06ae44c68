// How many requests may be with the engine at once, and how long those who are too many had better wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "server/access/wait_estimate.h"

namespace kvasir {

// All methods may be called from any thread.
class Admission {
 public:
  // A place, given back when the last copy is gone: the engine's listener holds one until the engine has let go.
  using Ticket = std::shared_ptr<void>;

  explicit Admission(std::int64_t places) : places_(places), state_(std::make_shared<State>()) {}

  // So many places, or none and nullopt.
  std::optional<std::vector<Ticket>> admit(std::int64_t count) {
    // Taken only where there are enough: one who is refused never stands in another's way.
    std::int64_t taken = state_->taken.load();
    do {
      if (count > places_ - taken) return std::nullopt;
    } while (!state_->taken.compare_exchange_weak(taken, taken + count));
    Rest rest{state_->taken, count};
    std::vector<Ticket> tickets;
    tickets.reserve(static_cast<size_t>(count));
    while (rest.places > 0) {
      --rest.places;  // a ticket that cannot be made gives its place back itself
      tickets.emplace_back(nullptr, [state = state_](std::nullptr_t) { state->give_back(); });
    }
    return tickets;
  }

  // For one who was not admitted: seconds after which as many places may be free.
  int seconds_to_wait(std::int64_t count) {
    const std::lock_guard lock(state_->mutex);
    return state_->wait.refused(WaitEstimate::Clock::now(), count);
  }

  std::int64_t taken() const { return state_->taken.load(); }
  std::int64_t places() const { return places_; }

 private:
  struct State {
    std::atomic<std::int64_t> taken{0};
    std::mutex mutex;
    WaitEstimate wait{WaitEstimate::Clock::now()};  // under mutex

    void give_back() {
      taken.fetch_sub(1);
      const std::lock_guard lock(mutex);
      wait.freed(WaitEstimate::Clock::now(), 1);
    }
  };
  // Places that no ticket stands for yet, given back when memory runs out on the way.
  struct Rest {
    std::atomic<std::int64_t>& taken;
    std::int64_t places;
    ~Rest() { taken.fetch_sub(places); }
  };

  std::int64_t places_;
  std::shared_ptr<State> state_;  // outlives this while tickets do
};

}  // namespace kvasir
