// How fast a tokenizer reads a text: build/tokenizer_bench FOLDER_OR_FILE TEXT [ROUNDS]. Prints the fastest and the
// median round in MB/s, the number of tokens and a hash of them. bench/peers/tokenizers.mjs runs it beside Hugging
// Face's.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "base/mmap_file.h"
#include "text/tokenizer.h"

namespace {

// FNV-1a over the ids, which the script computes as well: both made the same tokens.
std::uint32_t hash_of(const std::vector<kvasir::TokenId>& tokens) {
  std::uint32_t hash = 2166136261U;
  for (const kvasir::TokenId token : tokens) hash = (hash ^ static_cast<std::uint32_t>(token)) * 16777619U;
  return hash;
}

int run(const char* model, const char* path, int rounds) {
  const kvasir::Tokenizer tokenizer = kvasir::Tokenizer::load(model);
  const kvasir::MmapFile text(path);
  std::vector<double> seconds;
  std::vector<kvasir::TokenId> tokens;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    tokens = tokenizer.encode(text.text(), kvasir::Tokenizer::Specials::kParse);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(seconds);
  const double megabytes = static_cast<double>(text.text().size()) / 1e6;
  std::printf("{\"fastest\": %.3f, \"median\": %.3f, \"tokens\": %zu, \"hash\": %u}\n", megabytes / seconds.front(),
              megabytes / seconds[seconds.size() / 2], tokens.size(), hash_of(tokens));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: tokenizer_bench FOLDER_OR_FILE TEXT [ROUNDS]\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 3);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
