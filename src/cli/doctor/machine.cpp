#include "cli/doctor/machine.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <thread>

#include "backend/buffer.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/machine_limits.h"
#include "backend/cuda/cuda_backend.h"
#include "base/bytes.h"
#include "base/error.h"

namespace kvasir {
namespace {

constexpr rlim_t kWantedFiles = 4160;  // serve's --max-connections, and some
constexpr size_t kMeasuredBytes = size_t{256} << 20;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::string out{std::istreambuf_iterator<char>(stream), {}};
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// The value behind "name : value" in one of the kernel's tables; empty: it is not there.
std::string table_value(const std::filesystem::path& table, const std::string& name) {
  std::ifstream stream(table);
  for (std::string text; std::getline(stream, text);) {
    if (!text.starts_with(name)) continue;
    const size_t value = text.find_first_not_of(" \t", text.find(':') + 1);
    return value == std::string::npos ? "" : text.substr(value);
  }
  return {};
}

std::optional<std::uint64_t> number_in(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

// What a container may take; nothing: as much as there is. cgroup v2, then v1.
std::optional<std::uint64_t> memory_limit(const SystemFiles& files) {
  for (const char* name : {"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const auto limit = number_in(text_of(files.root / name));
    if (limit && *limit < physical_memory()) return limit;
  }
  return std::nullopt;
}

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace

Finding find_processor(const SystemFiles& files) {
  std::string isas;
  const std::vector<Isa> available = available_isas();
  for (const Isa isa : available) isas += fmt::format("{}{}", isas.empty() ? "" : ", ", name_of(isa));
  const std::string name = table_value(files.root / "proc/cpuinfo", "model name");
  const std::string flags = " " + table_value(files.root / "proc/cpuinfo", "flags") + " ";
  Finding out{"cpu", fmt::format("{}; {} cores; kernels: {}", name.empty() ? "unknown" : name, cores(), isas), {}};
  if (has_bf16_dots() || has_int8_dots()) {
    out.what += fmt::format("; dot products of {}{}{}", has_bf16_dots() ? "bf16" : "",
                            has_bf16_dots() && has_int8_dots() ? " and " : "", has_int8_dots() ? "bytes" : "");
  }
  if (available.back() == Isa::kScalar) {
    out.advice = "without AVX2 answers are slow; use a small model with q4_0 weights, or another machine";
  } else if (flags.find(" amx_tile ") != std::string::npos) {
    out.advice = "its AMX units are not used yet";
  }
  return out;
}

Finding find_memory(const SystemFiles& files) {
  const std::string available = table_value(files.root / "proc/meminfo", "MemAvailable");
  Finding out{"memory", format_bytes(physical_memory()), {}};
  if (const auto kib = number_in(available)) out.what += ", available " + format_bytes(*kib * 1024);
  if (const auto limit = memory_limit(files)) {
    out.what += fmt::format("; this container may take {}", format_bytes(*limit));
    out.advice = fmt::format(
        "weights, --kv-memory and --swap-memory must stay below {} together; see kvasir plan "
        "--memory {}MiB",
        format_bytes(*limit), *limit >> 20);
  }
  return out;
}

Finding find_bandwidth(int threads) {
  Finding out{"bandwidth", {}, {}};
  try {
    const Buffer memory = allocate_host(kMeasuredBytes);
    std::fill_n(memory.as(), kMeasuredBytes, std::byte{1});
    const std::span<const std::byte> bytes(memory.as(), kMeasuredBytes);
    MachineLimits limits(parse_isa("auto"), threads == 0 ? cores() : threads, {bytes});
    const double read = limits.read_bytes_per_second() / 1e9;
    out.what = fmt::format(
        "{:.1f} GB/s read by {} threads: a model with 1 GB of weights answers at most {:.0f} tokens "
        "a second alone",
        read, threads == 0 ? cores() : threads, read);
    out.advice = read < 10 ? "this is little; fewer bits a weight (kvasir convert --weights q4_0) help most" : "";
  } catch (const Error&) {
    out.what = "not measured: there is no memory for it now";
  }
  return out;
}

// "200000 100000": so many microseconds of processors in each so many.
Finding find_quota(const SystemFiles& files) {
  std::istringstream text(text_of(files.root / "sys/fs/cgroup/cpu.max"));
  double quota = 0;
  double period = 0;
  if (!(text >> quota >> period) || period <= 0 || quota >= period * cores()) return {"quota", {}, {}};
  const int whole = std::max(1, static_cast<int>(std::floor(quota / period)));
  return {"quota", fmt::format("this container may use {:.1f} of {} cores", quota / period, cores()),
          fmt::format("more threads than that wait for each other: use -t {}", whole)};
}

Finding find_huge_pages(const SystemFiles& files) {
  const std::string setting = text_of(files.root / "sys/kernel/mm/transparent_hugepage/enabled");
  const size_t open = setting.find('[');
  if (open == std::string::npos) return {"pages", "the kernel has no transparent huge pages", {}};
  const std::string chosen = setting.substr(open + 1, setting.find(']') - open - 1);
  if (chosen != "never") return {"pages", fmt::format("huge where asked for ({})", chosen), {}};
  return {"pages", "small ones only: transparent huge pages are off",
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: weights and cache are read faster"};
}

Finding find_clock(const SystemFiles& files) {
  const std::string governor = text_of(files.root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor.empty()) return {"clock", {}, {}};
  if (governor != "powersave") return {"clock", governor, {}};
  return {"clock", governor, "cpupower frequency-set -g performance: the first tokens come sooner"};
}

Finding find_nodes(const SystemFiles& files) {
  int nodes = 0;
  std::error_code error;
  const std::filesystem::path folder = files.root / "sys/devices/system/node";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    nodes += name.starts_with("node") && name.size() > 4 && name[4] >= '0' && name[4] <= '9' ? 1 : 0;
  }
  if (nodes < 2) return {"nodes", {}, {}};
  return {"nodes", fmt::format("{} NUMA nodes", nodes),
          "numactl --interleave=all kvasir serve …: or the memory of one node serves the threads of all"};
}

Finding find_gpus(const SystemFiles& files) {
  const std::vector<std::string> devices = cuda_devices();
  if (!devices.empty()) {
    std::string list;
    for (size_t i = 0; i < devices.size(); ++i)
      list += fmt::format("{}cuda:{} {}", i == 0 ? "" : ", ", i, devices[i]);
    return {"gpu", list, {}};
  }
  std::error_code error;
  const bool there = std::filesystem::exists(files.root / "dev/nvidia0", error);
  if (!there) return {"gpu", "none; the CPU computes", {}};
  const std::string driver = table_value(files.root / "proc/driver/nvidia/version", "NVRM version");
  return {"gpu",
          fmt::format("there is one that this program cannot use; driver: {}", driver.empty() ? "none" : driver),
          "it needs a driver of 580 or newer, and a build with CUDA 13: see docs/gpu.md"};
}

Finding find_limits() {
  rlimit files{};
  rlimit space{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || getrlimit(RLIMIT_AS, &space) != 0) return {"limits", {}, {}};
  Finding out{
      "limits",
      files.rlim_max == RLIM_INFINITY ? "any number of open files" : fmt::format("{} open files", files.rlim_max),
      {}};
  if (files.rlim_max < kWantedFiles) {
    out.advice = fmt::format(
        "serve takes 4096 connections: ulimit -n {}, LimitNOFILE= of systemd, or fewer with "
        "--max-connections",
        kWantedFiles);
  }
  if (space.rlim_cur != RLIM_INFINITY) {
    out.what += fmt::format("; {} of address space", format_bytes(space.rlim_cur));
    out.advice += fmt::format("{}ulimit -v unlimited: a model is mapped whole", out.advice.empty() ? "" : "; ");
  }
  return out;
}

std::vector<Finding> examine_machine(const SystemFiles& files, int threads) {
  std::vector<Finding> out{find_processor(files),  find_quota(files), find_clock(files),
                           find_memory(files),     find_nodes(files), find_bandwidth(threads),
                           find_huge_pages(files), find_limits(),     find_gpus(files)};
  std::erase_if(out, [](const Finding& one) { return one.what.empty(); });
  return out;
}

}  // namespace kvasir
