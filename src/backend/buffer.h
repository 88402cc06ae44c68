// Memory of a backend: move-only, given back in the destructor.
#pragma once

#include <cstddef>

namespace kvasir {

class Buffer {
 public:
  using Free = void (*)(void* data, size_t bytes);

  Buffer() = default;
  Buffer(void* data, size_t bytes, Free free) : data_(data), bytes_(bytes), free_(free) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) free_(data_, bytes_);
  }

  template <class T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept;

  void* data_ = nullptr;
  size_t bytes_ = 0;
  Free free_ = nullptr;
};

// Host memory on its own pages, all zero, huge pages where the system has them. Throws Error when there is none left.
Buffer allocate_host(size_t bytes);

}  // namespace kvasir
