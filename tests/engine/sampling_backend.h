// A backend that draws tokens beside its logits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "backend/forwarding_backend.h"
#include "sample/sampler.h"

namespace kvasir::testing {

// Draws on the host what a device would draw.
class SamplingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  SampleTicket sample(Matrix logits, std::span<const SampleRule> rules) override {
    EXPECT_EQ(logits.rows, std::ssize(rules));
    last_drawn_.clear();
    for (size_t i = 0; i < rules.size(); ++i) {
      std::vector<float> row(logits.row(static_cast<int>(i)), logits.row(static_cast<int>(i)) + logits.cols);
      const SampleRule& rule = rules[i];
      SamplingParams params{.temperature = rule.temperature,
                            .top_k = rule.top_k,
                            .top_p = rule.top_p,
                            .min_p = std::exp(rule.min_p_margin / rule.temperature),
                            .seed = rule.seed};
      if (rule.temperature == 0.0F || std::isinf(rule.min_p_margin)) params.min_p = 0;
      last_drawn_.push_back(broken_ ? -1 : Sampler(params, {}).sample(row, rule.position));
    }
    drawn_ += static_cast<int>(rules.size());
    waiting_[++tickets_] = last_drawn_;
    return tickets_;
  }
  SampleTicket last_sample() const override { return tickets_; }
  void take_sampled(SampleTicket ticket, std::span<TokenId> tokens) override {
    ASSERT_EQ(waiting_[ticket].size(), tokens.size());
    std::ranges::copy(waiting_[ticket], tokens.begin());
    waiting_.erase(ticket);
  }
  void run(const Op& op) override {
    const auto* embed = std::get_if<EmbedOp>(&op);
    if (embed == nullptr) return ForwardingBackend::run(op);
    std::vector<TokenId> known(embed->tokens.begin(), embed->tokens.end());
    for (TokenId& token : known) {
      if (is_sampled(token)) token = std::max(0, last_drawn_[static_cast<size_t>(row_of_sampled(token))]);
    }
    ForwardingBackend::run(EmbedOp{embed->table, known, embed->out});
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    downloaded_ += to.size();
    ForwardingBackend::download(to, from);
  }

  SampleTicket tickets_ = kNoSample;
  std::vector<TokenId> last_drawn_;
  std::map<SampleTicket, std::vector<TokenId>> waiting_;
  int drawn_ = 0;
  size_t downloaded_ = 0;
  bool broken_ = false;
};

}  // namespace kvasir::testing
