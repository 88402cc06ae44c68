// Rows of a backend on the host, for whoever looks at numbers: what they lie in is the backend's own.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace kvasir {

// `from`'s rows, now in `to`, which outlives what is returned.
inline Matrix download_rows(Backend& backend, Matrix from, std::vector<float>& to) {
  if (from.rows == 0) return {to.data(), 0, from.cols, from.stride};
  to.resize(static_cast<size_t>((from.rows - 1) * from.stride + from.cols));
  backend.download(std::as_writable_bytes(std::span(to)), reinterpret_cast<const std::byte*>(from.data));
  return {to.data(), from.rows, from.cols, from.stride};
}

}  // namespace kvasir
