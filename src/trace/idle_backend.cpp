#include "trace/idle_backend.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "trace/read_trace.h"

namespace kvasir {

// Places without memory behind them: whoever looked there would end the process.
Buffer IdleBackend::allocate(size_t bytes) {
  const size_t size = std::max<size_t>(bytes, 1);
  void* at = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    throw Error(Error::Kind::kCapacity, {"the system has no addresses left for a cache of that size", "--kv-memory",
                                         "plan with less memory"});
  }
  return {at, size, [](void* data, size_t length) { ::munmap(data, length); }};
}

// Nothing was ever written.
void IdleBackend::download(std::span<std::byte> to, const std::byte* /*from*/) {
  finish();
  std::ranges::fill(to, std::byte{0});
}

void IdleBackend::work(double seconds) {
  done_ = std::max(done_, p_.clock.now()) + seconds;
  if (p_.samples == TraceConfig::Samples::kOnHost) finish();
}

void IdleBackend::step(const StepSize& size) { work(p_.costs.seconds(size)); }

void IdleBackend::copy(std::span<const HostCopy> pieces) {
  double bytes = 0;
  for (const HostCopy& piece : pieces) bytes += static_cast<double>(piece.bytes);
  work(bytes / p_.swap_bytes_per_second);
}

SampleTicket IdleBackend::sample(Matrix logits, std::span<const SampleRule> rules) {
  CHECK(logits.rows == std::ssize(rules));
  Sampled sampled{++tickets_, done_, {}};
  sampled.tokens.reserve(rules.size());
  for (const SampleRule& rule : rules) sampled.tokens.push_back(p_.next_token(rule));
  waiting_.push_back(std::move(sampled));
  return tickets_;
}

// On a host tokens are known when a step ends, and no step is given before.
SampleTicket IdleBackend::last_sample() const {
  return p_.samples == TraceConfig::Samples::kOnDevice ? tickets_ : kNoSample;
}

void IdleBackend::take_sampled(SampleTicket ticket, std::span<TokenId> tokens) {
  const auto found = std::ranges::find(waiting_, ticket, &Sampled::ticket);
  CHECK(found != waiting_.end() && found->tokens.size() == tokens.size());
  p_.clock.advance_to(found->done);
  std::ranges::copy(found->tokens, tokens.begin());
  waiting_.erase(found);
}

IdleModel::IdleModel(IdleBackend& backend, ModelSpec spec, int max_rows)
    : backend_(backend), spec_(std::move(spec)), max_rows_(max_rows) {
  spec_.vocab = std::max(spec_.vocab, kEndOfAnswer + 1);
}

Matrix IdleModel::forward(const Batch& batch, KvStorage& /*storage*/) {
  StepSize size;
  size.rows = static_cast<double>(batch.rows());
  size.samples = static_cast<double>(batch.logit_rows.size());
  for (const Position position : batch.positions) size.keys += static_cast<double>(position + 1);
  backend_.step(size);
  Matrix logits;
  logits.rows = static_cast<int>(batch.logit_rows.size());
  logits.cols = spec_.vocab;
  return logits;
}

}  // namespace kvasir
