#pragma once

#include <vector>

#include "backend/backend.h"
#include "support/random_data.h"

namespace kvasir::testing {

// Rows in the backend's memory.
class DeviceRows {
 public:
  DeviceRows(Backend& backend, const OwnedMatrix& from)
      : backend_(backend), memory_(backend.allocate(from.values.size() * sizeof(float))), view_(from.view) {
    view_.data = memory_.as<float>();
    set(from);
  }
  void set(const OwnedMatrix& from) {
    backend_.upload(memory_.as<std::byte>(), std::as_bytes(std::span(from.values)));
  }
  Matrix view() const { return view_; }
  std::vector<float> values() const {
    std::vector<float> out(static_cast<size_t>(view_.rows * view_.stride));
    backend_.download(std::as_writable_bytes(std::span(out)), memory_.as<std::byte>());
    return out;
  }

 private:
  Backend& backend_;
  Buffer memory_;
  Matrix view_;
};

}  // namespace kvasir::testing
