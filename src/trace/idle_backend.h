// A backend and a model that compute nothing, so that an engine shows on a clock that is only counted what it would
// do with real ones: who runs when, what is found again, and who must wait.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/time_source.h"
#include "model/model.h"
#include "trace/request_trace.h"
#include "trace/step_costs.h"

namespace kvasir {

class CountedTime final : public TimeSource {
 public:
  double now() const override { return now_; }
  void advance_to(double seconds) { now_ = seconds > now_ ? seconds : now_; }

 private:
  double now_ = 0;
};

// The device's own time: what it was given is done one after the other.
class IdleBackend final : public Backend {
 public:
  // What a request's token is at a place; its sampling seed says which request it is.
  using NextToken = std::function<TokenId(const SampleRule& rule)>;

  struct Parts {
    CountedTime& clock;
    const StepCostModel& costs;
    double swap_bytes_per_second = 0;
    TraceConfig::Samples samples = TraceConfig::Samples::kOnHost;
    NextToken next_token;
  };
  explicit IdleBackend(Parts parts) : p_(std::move(parts)) {}

  // A step that the model was given. On a host everybody waits for it.
  void step(const StepSize& size);

  std::string description() const override { return "idle"; }
  std::string kernel_version() const override { return "idle"; }
  Buffer allocate(size_t bytes) override;
  Buffer allocate_on_host(size_t bytes) override { return allocate(bytes); }
  void upload(std::byte* /*to*/, std::span<const std::byte> /*from*/) override {}
  void download(std::span<std::byte> to, const std::byte* from) override;
  void save(std::span<const HostCopy> pieces) override { copy(pieces); }
  void restore(std::span<const HostCopy> pieces) override { copy(pieces); }
  void finish() override { p_.clock.advance_to(done_); }
  std::unique_ptr<Weight> load(std::span<const HostWeight> /*stacked*/) override { return nullptr; }
  void run(const Op& /*op*/) override {}
  SampleTicket sample(Matrix logits, std::span<const SampleRule> rules) override;
  SampleTicket last_sample() const override;
  void take_sampled(SampleTicket ticket, std::span<TokenId> tokens) override;

 private:
  struct Sampled {
    SampleTicket ticket = kNoSample;
    double done = 0;
    std::vector<TokenId> tokens;
  };

  void work(double seconds);
  void copy(std::span<const HostCopy> pieces);

  Parts p_;
  double done_ = 0;  // all that it was given
  SampleTicket tickets_ = kNoSample;
  std::deque<Sampled> waiting_;
};

class IdleModel final : public Model {
 public:
  // The backend outlives this. The vocabulary has room for a trace's tokens.
  IdleModel(IdleBackend& backend, ModelSpec spec, int max_rows);

  const ModelSpec& config() const override { return spec_; }
  Key256 fingerprint() const override { return {}; }
  Key256 stored_fingerprint() const override { return {}; }
  std::uint64_t weight_bytes() const override { return 0; }
  int max_rows() const override { return max_rows_; }
  std::vector<std::span<const std::byte>> weight_memory() const override { return {}; }
  void use_basis(const KvBasis& /*basis*/) override {}
  const std::optional<Key256>& basis_name() const override { return basis_; }
  Matrix forward(const Batch& batch, KvStorage& storage) override;

 private:
  IdleBackend& backend_;
  ModelSpec spec_;
  int max_rows_;
  std::optional<Key256> basis_ = Key256{};
};

}  // namespace kvasir
