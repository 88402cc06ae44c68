// Whose blocks there are, counted in bytes over all groups: one ledger for every pool, so that an owner's share is
// of the whole memory, whatever the sizes of its blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvasir {

// Small numbers, handed out densely by the caller.
using OwnerId = std::uint32_t;

class Owners {
 public:
  struct Limits {
    std::int64_t guaranteed = 0;
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
  };
  struct Book {
    Limits limits;
    std::int64_t has = 0;   // held, interior and evictable
    std::int64_t held = 0;  // of those
  };

  Book of(OwnerId owner) const { return owner < books_.size() ? books_[owner] : Book{}; }
  bool over_guarantee(OwnerId owner) const { return of(owner).has > of(owner).limits.guaranteed; }
  // Of what the owner has only cached, so much nobody else may take.
  std::int64_t kept_for(OwnerId owner) const {
    const Book book = of(owner);
    return std::max<std::int64_t>(std::min(book.has, book.limits.guaranteed) - book.held, 0);
  }
  size_t size() const { return books_.size(); }

  void set_limits(OwnerId owner, Limits limits) { book(owner).limits = limits; }
  void count(OwnerId owner, std::int64_t has, std::int64_t held) {
    book(owner).has += has;
    book(owner).held += held;
  }

 private:
  Book& book(OwnerId owner) {
    if (owner >= books_.size()) books_.resize(owner + 1);
    return books_[owner];
  }

  std::vector<Book> books_;
};

}  // namespace kvasir
