#include "base/private_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace kvasir {
namespace {

[[noreturn]] void fail_errno(const char* doing, const std::filesystem::path& path) {
  fail_system(fmt::format("cannot {}: {}", doing, std::strerror(errno)), path.string());
}

// A descriptor that is closed at the end of its scope.
class File {
 public:
  File(const std::filesystem::path& path, int flags, mode_t mode = 0)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {
    if (fd_ < 0) fail_errno("open it", path);
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int get() const { return fd_; }

 private:
  int fd_;
};

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

void write_all(const File& file, std::string_view text, const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(file.get(), text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail_errno("write it", path);
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  if (::fsync(file.get()) != 0) fail_errno("sync it", path);
}

}  // namespace

std::string read_small_file(const std::filesystem::path& path, std::size_t most) {
  const File file(path, O_RDONLY);
  std::string out;
  std::array<char, 16384> chunk{};
  while (true) {
    const ssize_t got = ::read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("read it", path);
    if (got == 0) return out;
    out.append(chunk.data(), static_cast<size_t>(got));
    if (out.size() > most) fail_input(fmt::format("the file is longer than {} bytes", most), path.string());
  }
}

void replace_private_file(const std::filesystem::path& path, std::string_view text) {
  // Where a link points, so that the link stays.
  const std::filesystem::path target = std::filesystem::exists(path) ? std::filesystem::canonical(path) : path;
  const std::filesystem::path beside = fmt::format("{}.{}.tmp", target.string(), ::getpid());
  ::unlink(beside.c_str());  // of an earlier process that was killed
  try {
    {
      const File file(beside, O_WRONLY | O_CREAT | O_EXCL, 0600);
      write_all(file, text, beside);
    }
    if (::rename(beside.c_str(), target.c_str()) != 0) fail_errno("replace it", target);
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
  const File folder(folder_of(target), O_RDONLY | O_DIRECTORY);
  if (::fsync(folder.get()) != 0) fail_errno("sync its folder", target);
}

bool others_can_read(const std::filesystem::path& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && (about.st_mode & (S_IRGRP | S_IROTH)) != 0;
}

FolderLock::FolderLock(const std::filesystem::path& folder)
    : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ < 0) fail_errno("open the folder", folder);
  while (::flock(folder_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    ::close(folder_);
    fail_errno("lock the folder", folder);
  }
}

FolderLock::~FolderLock() { ::close(folder_); }

}  // namespace kvasir
