// Which keys a query may see, and so which blocks a sequence must keep: one rule for the mask, for freeing and for
// the validity of a hit.
#pragma once

#include <cstdint>

#include "layout/host_device.h"

namespace kvasir {

// window 0: every earlier token. window w: the last w tokens, the query's own included, and the first `sinks` tokens.
struct Retention {
  std::int64_t window = 0;
  std::int64_t sinks = 0;

  KVASIR_HD bool full() const { return window == 0; }

  KVASIR_HD bool visible(std::int64_t query, std::int64_t key) const {
    return key <= query && (full() || query - key < window || key < sinks);
  }

  // Whether a query at `next` or later may see any of the positions [first, last]. Once false it stays false.
  KVASIR_HD bool needed(std::int64_t first, std::int64_t last, std::int64_t next) const {
    return full() || first < sinks || next - last < window;
  }

  // The first position of the window that a query at `query` sees; sinks come before it.
  KVASIR_HD std::int64_t window_begin(std::int64_t query) const {
    return full() || query < window ? 0 : query - window + 1;
  }

  friend bool operator==(const Retention&, const Retention&) = default;
};

}  // namespace kvasir
