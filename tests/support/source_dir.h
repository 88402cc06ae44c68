// The folder of the sources, where fixtures lie: that of the build or, for binaries that travelled, one above theirs.
#pragma once

#include <filesystem>
#include <stdexcept>

namespace kvasir::testing {

inline std::filesystem::path source_dir() {
  namespace fs = std::filesystem;
  const fs::path mark = "tests/model/fixtures";
  if (fs::exists(fs::path(KVASIR_SOURCE_DIR) / mark)) return KVASIR_SOURCE_DIR;
  for (fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();; folder = folder.parent_path()) {
    if (fs::exists(folder / mark)) return folder;
    if (folder == folder.parent_path())
      throw std::runtime_error("no sources with " + mark.string() + " above the test");
  }
}

}  // namespace kvasir::testing
