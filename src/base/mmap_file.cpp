#include "base/mmap_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace kvasir {

MmapFile::MmapFile(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_input(std::string("cannot be opened: ") + std::strerror(errno), path.string(), "check the path");
  struct stat info {};
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (!regular || info.st_size == 0) {
    ::close(fd);
    fail_input(regular ? "the file is empty" : "not a regular file", path.string(), "check the path");
  }
  size_ = static_cast<size_t>(info.st_size);
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  const int saved = errno;
  ::close(fd);
  if (mapped == MAP_FAILED) fail_system(std::string("cannot be mapped: ") + std::strerror(saved), path.string());
  data_ = static_cast<const std::byte*>(mapped);
}

MmapFile::MmapFile(MmapFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MmapFile& MmapFile::operator=(MmapFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MmapFile::~MmapFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MmapFile::done_with(std::span<const std::byte> range) const {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = (static_cast<size_t>(range.data() - data_) + page - 1) / page * page;
  const size_t end =
      static_cast<size_t>(range.data() - data_ + static_cast<std::ptrdiff_t>(range.size())) / page * page;
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace kvasir
