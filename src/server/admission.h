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
    if (taken_->fetch_add(count) + count > places_) {
      taken_->fetch_sub(count);
      return std::nullopt;
    }
    std::vector<Ticket> tickets;
    for (std::int64_t i = 0; i < count; ++i) {
      tickets.emplace_back(nullptr, [taken = taken_](std::nullptr_t) { taken->fetch_sub(1); });
    }
    return tickets;
  }

  std::int64_t taken() const { return taken_->load(); }
  std::int64_t places() const { return places_; }

 private:
  std::int64_t places_;
  std::shared_ptr<std::atomic<std::int64_t>> taken_;  // outlives this while tickets do
};

}  // namespace kvasir
