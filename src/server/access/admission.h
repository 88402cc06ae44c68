// How many requests may be with the engine at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace kvasir {

class Admission {
 public:
  // A place, given back when the last copy is gone: the engine's listener holds one until the engine has let go.
  using Ticket = std::shared_ptr<void>;

  explicit Admission(std::int64_t places) : places_(places), taken_(std::make_shared<std::atomic<std::int64_t>>(0)) {}

  // So many places, or none and nullopt.
  std::optional<std::vector<Ticket>> admit(std::int64_t count) {
    // Taken only where there are enough: one who is refused never stands in another's way.
    std::int64_t taken = taken_->load();
    do {
      if (count > places_ - taken) return std::nullopt;
    } while (!taken_->compare_exchange_weak(taken, taken + count));
    Rest rest{*taken_, count};
    std::vector<Ticket> tickets;
    tickets.reserve(static_cast<size_t>(count));
    while (rest.places > 0) {
      --rest.places;  // a ticket that cannot be made gives its place back itself
      tickets.emplace_back(nullptr, [taken = taken_](std::nullptr_t) { taken->fetch_sub(1); });
    }
    return tickets;
  }

  std::int64_t taken() const { return taken_->load(); }
  std::int64_t places() const { return places_; }

 private:
  // Places that no ticket stands for yet, given back when memory runs out on the way.
  struct Rest {
    std::atomic<std::int64_t>& taken;
    std::int64_t places;
    ~Rest() { taken.fetch_sub(places); }
  };

  std::int64_t places_;
  std::shared_ptr<std::atomic<std::int64_t>> taken_;  // outlives this while tickets do
};

}  // namespace kvasir
