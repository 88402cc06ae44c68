// What a machine has and lacks for inference, each with a line of advice where something can be done.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvasir {

struct Finding {
  std::string topic;
  std::string what;
  std::string advice;  // empty: it is well as it is
};

// What the kernel tells in files, below `root` (in tests: some other folder).
struct SystemFiles {
  std::filesystem::path root = "/";
};

Finding find_processor(const SystemFiles& files);
Finding find_memory(const SystemFiles& files);
Finding find_bandwidth(int threads);  // measured, half a second; threads 0: as many as cores
Finding find_quota(const SystemFiles& files);
Finding find_huge_pages(const SystemFiles& files);
Finding find_clock(const SystemFiles& files);
Finding find_nodes(const SystemFiles& files);
Finding find_gpus(const SystemFiles& files);
Finding find_limits();

// All of these; a finding without `what` is left out: there is nothing to tell.
std::vector<Finding> examine_machine(const SystemFiles& files, int threads);

}  // namespace kvasir
