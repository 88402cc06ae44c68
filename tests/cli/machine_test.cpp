// kvasir doctor's findings, from files as kernels write them.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <thread>

#include "cli/doctor/machine.h"
#include "program.h"

namespace kvasir::testing {
namespace {

class MachineTest : public ProgramTest {
 protected:
  SystemFiles with(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_ / "root" / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
    return {folder_ / "root"};
  }
};

TEST_F(MachineTest, TellsOfAContainersShareOfTheCores) {
  const auto cores = std::thread::hardware_concurrency();
  EXPECT_EQ(find_quota(with("sys/fs/cgroup/cpu.max", "max 100000")).what, "");
  EXPECT_EQ(find_quota(with("sys/fs/cgroup/cpu.max", std::to_string(cores) + "00000 100000")).what, "");
  const Finding half = find_quota(with("sys/fs/cgroup/cpu.max", "50000 100000"));
  EXPECT_NE(half.what.find("0.5 of "), std::string::npos) << half.what;
  EXPECT_NE(half.advice.find("-t 1"), std::string::npos) << half.advice;
}

TEST_F(MachineTest, TellsOfAContainersMemory) {
  const std::string file = "sys/fs/cgroup/memory.max";
  EXPECT_EQ(find_memory(with(file, "max")).advice, "");
  const Finding small = find_memory(with(file, "1073741824"));
  EXPECT_NE(small.what.find("may take 1.07 GB"), std::string::npos) << small.what;
  EXPECT_NE(small.advice.find("--memory 1024MiB"), std::string::npos) << small.advice;
}

TEST_F(MachineTest, TellsOfHugePagesClockAndNodes) {
  const std::string pages = "sys/kernel/mm/transparent_hugepage/enabled";
  EXPECT_EQ(find_huge_pages(with(pages, "always [madvise] never")).advice, "");
  EXPECT_NE(find_huge_pages(with(pages, "always madvise [never]")).advice, "");
  const std::string governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
  EXPECT_EQ(find_clock({folder_ / "nothing"}).what, "");
  EXPECT_EQ(find_clock(with(governor, "performance")).advice, "");
  EXPECT_NE(find_clock(with(governor, "powersave")).advice, "");
  EXPECT_EQ(find_nodes(with("sys/devices/system/node/node0/cpulist", "0-7")).what, "");
  EXPECT_EQ(find_nodes(with("sys/devices/system/node/node1/cpulist", "8-15")).what, "2 NUMA nodes");
}

TEST_F(MachineTest, DoctorMeasuresAndAdvises) {
  const Ran ran = run("doctor -t 1 --port 0");
  for (const char* topic : {"\nmemory ", "\nbandwidth ", "\npages ", "\nlimits ", "\ngpu ", "\nmodel ", "\nport "})
    EXPECT_NE(ran.out.find(topic), std::string::npos) << topic << ran.out;
  EXPECT_TRUE(std::regex_search(ran.out, std::regex("bandwidth +[0-9.]+ GB/s read by 1 threads"))) << ran.out;
  const Ran narrow = run("doctor -t 1 --port 0", "/dev/null", "ulimit -n 100; ");
  EXPECT_NE(narrow.out.find("-> serve takes 4096 connections: ulimit -n 4160"), std::string::npos) << narrow.out;
}

}  // namespace
}  // namespace kvasir::testing
