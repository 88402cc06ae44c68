// A small file with secrets in it: only its owner reads it, and it is replaced whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kvasir {

// At most `most` bytes. Throws Error when it cannot be read or is longer.
std::string read_small_file(const std::filesystem::path& path, std::size_t most);

// Mode 0600. Readers see the old text or the new one, also after a power cut: written beside, synced, renamed.
void replace_private_file(const std::filesystem::path& path, std::string_view text);

// Whether anyone but the owner may read it.
bool others_can_read(const std::filesystem::path& path);

// Held by who reads a file, changes it and writes it back: a second one waits. The folder must exist.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_;
};

}  // namespace kvasir
