#include "server/answer/reasoning_constraint.h"

#include <limits>
#include <span>
#include <utility>

namespace kvasir {
namespace {

using GateState = ReasoningGate::State;

class AfterReasoning : public TokenConstraint {
 public:
  AfterReasoning(std::unique_ptr<TokenConstraint> form, ReasoningGate gate)
      : form_(std::move(form)), gate_(std::move(gate)) {}

  bool prepare(std::size_t& work) override { return gate_.state == GateState::kInside || form_->prepare(work); }

  void mask(std::span<float> logits) override {
    if (gate_.state == GateState::kInside) {
      for (const TokenId end : gate_.ends) {
        if (static_cast<size_t>(end) < logits.size())
          logits[static_cast<size_t>(end)] = -std::numeric_limits<float>::infinity();
      }
      return;
    }
    const bool may_open = gate_.state == GateState::kMayOpen && static_cast<size_t>(*gate_.open) < logits.size();
    const float open = may_open ? logits[static_cast<size_t>(*gate_.open)] : 0;
    form_->mask(logits);
    if (may_open) logits[static_cast<size_t>(*gate_.open)] = open;
  }

  void accept(TokenId token) override {
    if (gate_.state == GateState::kMayOpen && token == *gate_.open) {
      gate_.state = GateState::kInside;
    } else if (gate_.state == GateState::kInside) {
      if (token == gate_.close) gate_.state = GateState::kPassed;
    } else {
      gate_.state = GateState::kPassed;
      form_->accept(token);
    }
  }

  bool ended() const override { return gate_.state == GateState::kPassed && form_->ended(); }

  std::unique_ptr<TokenConstraint> fork() const override {
    return std::make_unique<AfterReasoning>(form_->fork(), gate_);
  }

 private:
  std::unique_ptr<TokenConstraint> form_;
  ReasoningGate gate_;
};

}  // namespace

std::shared_ptr<const TokenConstraint> after_reasoning(const TokenConstraint& form, ReasoningGate gate) {
  return std::make_shared<AfterReasoning>(form.fork(), std::move(gate));
}

}  // namespace kvasir
