// Which keys a query may see, and so which blocks a sequence must keep: one rule for the mask, for freeing and for
// the validity of a hit.
#pragma once

#include <cstdint>

#include "layout/host_device.h"

namespace kvasir {

// window 0 and chunk 0: every earlier token. window w: the last w tokens, the query's own included. chunk c: none
// before the query's own chunk, of which the text has one after the other from its beginning on. Beside these the
// first `sinks` tokens.
struct Retention {
  std::int64_t window = 0;
  std::int64_t sinks = 0;
  std::int64_t chunk = 0;

  KVASIR_HD bool full() const { return window == 0 && chunk == 0; }

  KVASIR_HD bool visible(std::int64_t query, std::int64_t key) const {
    return key <= query && (key >= window_begin(query) || key < sinks);
  }

  // Whether a query at `next` or later may see any of the positions [first, last]. Once false it stays false.
  KVASIR_HD bool needed(std::int64_t first, std::int64_t last, std::int64_t next) const {
    return full() || first < sinks || last >= window_begin(next);
  }

  // The first position of the window that a query at `query` sees; sinks come before it.
  KVASIR_HD std::int64_t window_begin(std::int64_t query) const {
    const std::int64_t by_window = window == 0 || query < window ? 0 : query - window + 1;
    const std::int64_t by_chunk = chunk == 0 ? 0 : query / chunk * chunk;
    return by_window > by_chunk ? by_window : by_chunk;
  }

  // The most tokens that a query sees beside the sinks. REQUIRES: !full().
  KVASIR_HD std::int64_t span() const { return window == 0 || (chunk != 0 && chunk < window) ? chunk : window; }

  friend bool operator==(const Retention&, const Retention&) = default;
};

}  // namespace kvasir
