// Attention of one decode step over a long context, by KV format: time, bytes, and both relative to f16.
//
//     build/attention_bench [depth] [threads] [format …]      like: build/attention_bench 8192 2 f16 int8 int4
//
// The shape is llama-3.2-1b's: 16 layers of 8 KV heads, 4 query heads each, 64 numbers a head. Formats take turns, so
// that a machine that changes its speed changes it for all; the fastest turn counts. With one thread it is
// the processor's time, which others that use the machine disturb less than the clock's.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/kv_storage.h"
#include "backend/make_backend.h"
#include "layout/codec.h"
#include "layout/kv_policy.h"

namespace kvasir {
namespace {

constexpr int kLayers = 16;
constexpr int kHeads = 32;
constexpr KvShape kShape{8, 64, 64};
constexpr int kBlockTokens = 16;
constexpr int kTurns = 15;

std::vector<float> noise(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) value = normal(random);
  return out;
}

using Clock = double (*)();
double wall_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double processor_clock() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// One cache of a format, full of noise.
class Cache {
 public:
  Cache(Backend& backend, const KvPolicy& formats, int depth) : formats_(formats), depth_(depth) {
    KvGroup group{{}, kShape, formats.k_format, formats.v_format, {}};
    for (int layer = 0; layer < kLayers; ++layer) group.layers.push_back(layer);
    const std::int64_t blocks = blocks_for(depth, kBlockTokens);
    bytes_ = static_cast<double>(bytes_per_token(group) * depth);
    for (std::int64_t b = 0; b < blocks; ++b) table_.push_back(static_cast<BlockId>(blocks - 1 - b));
    const KvStorage::Pages pages{blocks, make_layout(group, kBlockTokens).block_bytes()};
    storage_ = std::make_unique<KvStorage>(backend, pages, kBlockTokens);
    storage_->set_group(0, group);
    constexpr int kChunk = 512;
    std::vector<float> k = noise(kChunk * 512, 1);
    std::vector<float> v = noise(kChunk * 512, 2);
    for (int at = 0; at < depth; at += kChunk) {
      const int rows = std::min(kChunk, depth - at);
      const std::vector<SequenceView> one{{table_.data(), at, 0, rows}};
      for (int layer = 0; layer < kLayers; ++layer) {
        backend.run(KvWriteOp{{k.data(), rows, 512}, {v.data(), rows, 512}, storage_->view(0, layer), one});
      }
    }
  }

  void step(Backend& backend, Clock clock, std::vector<float>& q, std::vector<float>& out) {
    const std::vector<SequenceView> one{{table_.data(), depth_ - 1, 0, 1}};
    const double start = clock();
    for (int layer = 0; layer < kLayers; ++layer) {
      backend.run(
          AttentionOp{{{q.data(), 1, 2048}, storage_->view(0, layer), one, kHeads, {0.125F}}, {out.data(), 1, 2048}});
    }
    times_.push_back(clock() - start);
  }

  double fastest() const { return std::ranges::min(times_); }
  double bytes() const { return bytes_; }
  std::string name() const { return to_text(formats_); }

 private:
  KvPolicy formats_;
  int depth_;
  double bytes_ = 0;
  std::vector<BlockId> table_;
  std::unique_ptr<KvStorage> storage_;
  std::vector<double> times_;
};

void run(int depth, int threads, const std::vector<std::string>& names) {
  const auto backend = make_backend({"cpu", threads, "auto"});
  std::vector<Cache> caches;
  for (const std::string& name : names)
    caches.emplace_back(*backend, parse_kv_policy(name, "the command line"), depth);
  std::vector<float> q = noise(2048, 3);
  std::vector<float> out(2048);
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Cache& cache : caches) cache.step(*backend, threads == 1 ? &processor_clock : &wall_clock, q, out);
  }
  const Cache& base = caches.front();
  fmt::print("{}, depth {}\n", backend->description(), depth);
  for (const Cache& cache : caches) {
    fmt::print("{:>16}  {:7.2f} ms  {:6.1f} GB/s  {:5.2f}x time  {:5.2f}x bytes\n", cache.name(),
               cache.fastest() * 1e3, cache.bytes() / cache.fastest() / 1e9, base.fastest() / cache.fastest(),
               base.bytes() / cache.bytes());
  }
}

}  // namespace
}  // namespace kvasir

int main(int argc, char** argv) {
  const int depth = argc > 1 ? std::stoi(argv[1]) : 8192;
  const int threads = argc > 2 ? std::stoi(argv[2]) : 0;
  std::vector<std::string> names(argv + std::min(argc, 3), argv + argc);
  if (names.empty()) names = {"f16", "int8", "int4", "int2", "fp8_e4m3", "fp8_e5m2"};
  kvasir::run(depth, threads, names);
  return 0;
}
