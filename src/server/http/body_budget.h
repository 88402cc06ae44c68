// Memory for the bodies of requests that are being read or wait to be handled, of all connections together.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace kvasir {

// Of the thread of the sockets alone. Outlives the shares it gave.
class BodyBudget {
 public:
  // Small bodies are not counted, so that large ones of others never keep them out; connections are bounded.
  static constexpr std::uint64_t kSmall = 16U << 10;

  explicit BodyBudget(std::uint64_t bytes) : bytes_(bytes) {}

  // What one body has of the budget, given back at its end.
  class Share {
   public:
    Share() = default;
    Share(BodyBudget& budget, std::string tenant) : budget_(&budget), tenant_(std::move(tenant)) {}
    ~Share() { reset(); }
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(tenant_, other.tenant_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }

    // To have so many bytes in all. False: there are not so many left, and nothing has changed.
    bool grow_to(std::uint64_t bytes) {
      if (bytes <= kSmall || bytes <= bytes_) return true;
      if (!budget_->take(tenant_, bytes - bytes_)) return false;
      bytes_ = bytes;
      return true;
    }

    void reset() {
      if (bytes_ > 0) budget_->give_back(tenant_, bytes_);
      bytes_ = 0;
    }

   private:
    BodyBudget* budget_ = nullptr;
    std::string tenant_;
    std::uint64_t bytes_ = 0;
  };

 private:
  // A tenant with a name has half at most; the empty name stands for everybody.
  bool take(const std::string& tenant, std::uint64_t bytes) {
    std::uint64_t& theirs = by_tenant_[tenant];
    const std::uint64_t most = tenant.empty() ? bytes_ : bytes_ / 2;
    const bool fits = bytes <= bytes_ - taken_ && theirs <= most && bytes <= most - theirs;
    if (fits) {
      theirs += bytes;
      taken_ += bytes;
    }
    if (theirs == 0) by_tenant_.erase(tenant);
    return fits;
  }

  void give_back(const std::string& tenant, std::uint64_t bytes) {
    const auto theirs = by_tenant_.find(tenant);
    theirs->second -= bytes;
    if (theirs->second == 0) by_tenant_.erase(theirs);
    taken_ -= bytes;
  }

  const std::uint64_t bytes_;
  std::uint64_t taken_ = 0;  // the sum of by_tenant_; at most bytes_
  std::map<std::string, std::uint64_t> by_tenant_;
};

}  // namespace kvasir
