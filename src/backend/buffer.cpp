#include "backend/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace kvasir {

void Buffer::swap(Buffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(free_, other.free_);
}

Buffer allocate_host(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t size = std::max<size_t>(bytes, 64);
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    fail_system(fmt::format("the system refused {}: {}", format_bytes(bytes), std::strerror(errno)), "memory",
                "ask for less with --kv-memory or --ctx-size");
  }
  if (size >= kHugePage) ::madvise(data, size, MADV_HUGEPAGE);  // fewer TLB misses; not having it is no error
  return {data, size, [](void* old, size_t old_size) { ::munmap(old, old_size); }};
}

}  // namespace kvasir
