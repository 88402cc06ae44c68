// What an evaluation has done so far, in a file that is replaced whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "eval/divergence.h"

namespace kvasir {

// One policy's share of what is done: the windows [0, windows), the needles [0, needles).
struct PolicyProgress {
  std::int64_t windows = 0;
  QualitySums quality;
  int needles = 0;
  std::vector<int> found;  // needles, by depth
};

struct KeptProgress {
  std::string identity;  // names the model, the text and the settings that the numbers come from
  std::map<std::string, PolicyProgress> policies;
};

// Without a file: nothing is done. Throws Error when it is damaged, or was made of something else.
KeptProgress read_progress(const std::filesystem::path& path, const std::string& identity);

// Numbers come back from the file bit for bit. Throws Error when it cannot be written.
void write_progress(const std::filesystem::path& path, const KeptProgress& progress);

}  // namespace kvasir
