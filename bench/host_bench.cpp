// What the host does for a decode step: the engine and the model over a backend that computes nothing, and says after
// some milliseconds that it did.
//
//   build/host_bench [MILLISECONDS [SEQUENCES [MEGABYTES]]]     6, 64 and 0 unless said
//
// A backend's own part, launches and plans, is not in it. With 0 milliseconds all that a step reads is in the caches
// of the step before; with as many megabytes as these have, which are read while the host waits, nothing is.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "base/check.h"
#include "cli/bench/bench_load.h"
#include "model/known_models.h"
#include "model/random_model.h"

namespace kvasir {
namespace {

using Clock = std::chrono::steady_clock;

class NoWeight final : public Weight {
 public:
  using Weight::Weight;
  std::span<const std::byte> memory() const override { return {}; }
};

// Steps take their time one behind the other, as on a device.
class IdleBackend final : public Backend {
 public:
  // `others`: bytes that take the place of what is in the caches.
  IdleBackend(std::chrono::nanoseconds step, size_t others) : step_(step), others_(others) {}

  std::string description() const override { return "idle"; }
  std::string kernel_version() const override { return "idle"; }
  Buffer allocate(size_t bytes) override { return allocate_host(bytes); }
  void upload(std::byte* to, std::span<const std::byte> from) override { std::ranges::copy(from, to); }
  void download(std::span<std::byte> /*to*/, const std::byte* /*from*/) override {}
  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked) override {
    int outputs = 0;
    for (const HostWeight& weight : stacked) outputs += weight.rows;
    return std::make_unique<NoWeight>(outputs, stacked.front().cols);
  }

  void run(const Op& /*op*/) override {}

  void begin_batch(std::span<const std::vector<SequenceView>> /*groups*/, int /*block_tokens*/) override { ++batch_; }
  BatchId end_batch() override { return batch_; }
  bool replay_batch(BatchId batch, const BatchInputs& /*inputs*/) override { return batch == batch_; }

  SampleTicket sample(Matrix /*logits*/, std::span<const SampleRule> /*rules*/) override {
    free_at_ = std::max(free_at_, Clock::now()) + step_;
    done_at_[++last_] = free_at_;
    return last_;
  }
  SampleTicket last_sample() const override { return last_; }
  void take_sampled(SampleTicket ticket, std::span<TokenId> tokens) override {
    const auto found = done_at_.find(ticket);
    CHECK(found != done_at_.end());
    for (std::byte& byte : others_) byte ^= std::byte{1};
    while (Clock::now() < found->second) continue;  // as a GPU's tokens are waited for
    done_at_.erase(found);
    std::ranges::fill(tokens, 7);
  }

 private:
  Clock::duration step_;
  std::vector<std::byte> others_;
  Clock::time_point free_at_ = Clock::now();  // when all that was drawn so far is done
  BatchId batch_ = kNoBatch;
  SampleTicket last_ = kNoSample;
  std::map<SampleTicket, Clock::time_point> done_at_;
};

void run(double milliseconds, int sequences, double megabytes) {
  constexpr int kRepeats = 5;
  WaitBackend backend(std::make_unique<IdleBackend>(
      std::chrono::nanoseconds(static_cast<std::int64_t>(milliseconds * 1e6)), static_cast<size_t>(megabytes * 1e6)));
  LoadOptions load;
  load.max_rows = 2048;
  // Layers and heads of an 8B model; how wide it is nobody looks at.
  const ModelSpec shape =
      parse_shape("layers=32,hidden=64,ffn=64,heads=32,kv_heads=8,head_dim=128,vocab=2000,tied=1,dtype=bf16");
  const std::unique_ptr<Model> model = make_random_model(shape, backend, load, 1);
  EngineConfig config;
  config.scheduler.max_batch_tokens = load.max_rows;
  LoadBench bench(backend, *model, config);
  fmt::print("{} sequences, {} ms a step, {} MB between two\n{:>8} {:>8} {:>8} us\n", sequences, milliseconds,
             megabytes, "p25", "p50", "p75");
  for (int i = 0; i < kRepeats; ++i) {
    const LoadResult result = bench.run({sequences, 512, 128}, 1);
    fmt::print("{:>8.1f} {:>8.1f} {:>8.1f}\n", 1e6 * percentile(result.host, 0.25),
               1e6 * percentile(result.host, 0.5), 1e6 * percentile(result.host, 0.75));
  }
}

}  // namespace
}  // namespace kvasir

int main(int argc, char** argv) {
  const auto number = [&](int at, double otherwise) {
    if (argc <= at) return otherwise;
    char* end = nullptr;
    const double value = std::strtod(argv[at], &end);
    return *end == '\0' ? value : -1.0;
  };
  const double milliseconds = number(1, 6);
  const int sequences = static_cast<int>(number(2, 64));
  const double megabytes = number(3, 0);
  if (milliseconds < 0 || sequences < 1 || megabytes < 0) {
    fmt::print(stderr, "usage: host_bench [MILLISECONDS [SEQUENCES [MEGABYTES]]]\n");
    return 2;
  }
  kvasir::run(milliseconds, sequences, megabytes);
}
