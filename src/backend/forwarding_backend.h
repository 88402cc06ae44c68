// A backend that hands everything on to another: to derive from, where some ops are to be more than that. Whoever
// changes an op sees the fused ones that are made of it as well, and lowers them (lower.h): what the other one makes
// of them does not come back here.
#pragma once

#include <memory>
#include <utility>

#include "backend/backend.h"

namespace kvasir {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> plain) : own_(std::move(plain)), plain_(*own_) {}
  explicit ForwardingBackend(Backend& plain) : plain_(plain) {}  // which outlives this one

  std::string description() const override { return plain_.description(); }
  std::string kernel_version() const override { return plain_.kernel_version(); }
  BackendLimits limits() const override { return plain_.limits(); }
  Buffer allocate(size_t bytes) override { return plain_.allocate(bytes); }
  std::uint64_t default_cache_bytes() const override { return plain_.default_cache_bytes(); }
  void upload(std::byte* to, std::span<const std::byte> from) override { plain_.upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { plain_.download(to, from); }
  Buffer allocate_on_host(size_t bytes) override { return plain_.allocate_on_host(bytes); }
  void save(std::span<const HostCopy> pieces) override { plain_.save(pieces); }
  void restore(std::span<const HostCopy> pieces) override { plain_.restore(pieces); }
  void finish() override { plain_.finish(); }
  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked) override { return plain_.load(stacked); }
  void begin_batch(std::span<const std::vector<SequenceView>> groups, int block_tokens) override {
    plain_.begin_batch(groups, block_tokens);
  }
  // No repeats, unless who derives from it asks for them: it would not see their ops.
  BatchId end_batch() override {
    plain_.end_batch();
    return kNoBatch;
  }
  const std::int32_t* upload_rope_rows(std::span<const std::int32_t> rope_rows) override {
    return plain_.upload_rope_rows(rope_rows);
  }
  void run(const Op& op) override { plain_.run(op); }
  SampleTicket sample(Matrix logits, std::span<const SampleRule> rules) override {
    return plain_.sample(logits, rules);
  }
  SampleTicket last_sample() const override { return plain_.last_sample(); }
  void take_sampled(SampleTicket ticket, std::span<TokenId> tokens) override { plain_.take_sampled(ticket, tokens); }

 protected:
  Backend& plain() { return plain_; }

 private:
  std::unique_ptr<Backend> own_;
  Backend& plain_;
};

}  // namespace kvasir
