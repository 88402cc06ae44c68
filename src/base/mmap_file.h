// A file mapped read-only. Move-only; unmapped in the destructor.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace kvasir {

// What to do about a file that contradicts itself.
inline constexpr const char* kDamagedFile = "the file is damaged or cut off: download it again";

class MmapFile {
 public:
  // Throws Error when the file is missing, unreadable, not a regular file, or empty.
  explicit MmapFile(const std::filesystem::path& path);
  MmapFile(MmapFile&& other) noexcept;
  MmapFile& operator=(MmapFile&& other) noexcept;
  ~MmapFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

  // The kernel may drop the pages of this range: they were copied elsewhere and will not be read again soon.
  void done_with(std::span<const std::byte> range) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace kvasir
