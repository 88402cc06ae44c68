// Runs a fuzzer's function where there is no libFuzzer: over every file of a folder, and then over inputs made of
// them by a few cheap changes, the same at every run. To see that a fuzzer builds and holds, not to find anything
// new.
//
//   NAME_fuzz FOLDER INPUTS SECONDS    (so many made inputs, or as many as fit into the time)
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// What a crash is of: written by the handler of signals, which may know no more than this.
struct Current {
  const char* file = nullptr;
  const char* data = nullptr;
  std::size_t size = 0;
};
Current& current() {
  static Current input;
  return input;
}

void keep_input(int signal) {
  const int file = ::open(current().file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  [[maybe_unused]] const ssize_t written = ::write(file, current().data, current().size);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const std::string& input) {
  const std::vector<std::uint8_t> exact(input.begin(),
                                        input.end());  // an allocation of its size: sanitizers see its end
  current().data = input.data();
  current().size = input.size();
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::vector<std::string> read_all(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<std::string> inputs;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

class Changes {
 public:
  explicit Changes(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  std::string next() {
    std::string text = one_of(seeds_);
    for (std::size_t count = 1 + below(4); count > 0; --count) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }
  const std::string& one_of(const std::vector<std::string>& list) { return list[below(list.size())]; }

  void change(std::string& text) {
    const std::size_t at = below(text.size());
    const std::size_t some = below(std::min<std::size_t>(text.size() - at, 16) + 1);
    switch (below(6)) {
      case 0:
        if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text.erase(at, some);
        break;
      case 2:
        text.insert(at, text.substr(at, some));
        break;
      case 3:
        text.insert(at, 1, std::string_view("{}[]\",:\\-0919\x00\x01\x7f\xff", 17)[below(17)]);
        break;
      case 4: {
        const std::string& other = one_of(seeds_);
        const std::size_t from = below(other.size());
        text.replace(at, some, other, from, below(32));
        break;
      }
      default:
        text.resize(at);
    }
  }

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: NAME_fuzz FOLDER INPUTS SECONDS\n", stderr);
    return 2;
  }
  const std::string kept = std::string(argv[1]) + ".crash";
  current().file = kept.c_str();
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS}) std::signal(signal, keep_input);
  const std::vector<std::string> seeds = read_all(argv[1]);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[3]));
  for (const std::string& seed : seeds) run(seed);
  Changes changes(seeds);
  long made = 0;
  for (; made < std::atol(argv[2]) && std::chrono::steady_clock::now() < end; ++made) run(changes.next());
  std::printf("%zu files and %ld inputs made of them\n", seeds.size(), made);
  return seeds.empty() ? 1 : 0;
}
