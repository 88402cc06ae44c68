#include "server/answer/call_or_form.h"

#include <limits>
#include <span>
#include <utility>

namespace kvasir {
namespace {

class CallOrForm : public TokenConstraint {
 public:
  CallOrForm(std::unique_ptr<TokenConstraint> form, std::vector<TokenId> mark)
      : form_(std::move(form)), mark_(std::move(mark)) {}

  bool prepare(std::size_t& work) override { return state_ == State::kCall || form_->prepare(work); }

  void mask(std::span<float> logits) override {
    if (state_ == State::kForm) return form_->mask(logits);
    if (met_ == mark_.size()) return;  // a call goes as it goes
    const auto next = static_cast<size_t>(mark_[met_]);
    const float wanted = next < logits.size() ? logits[next] : 0;
    if (state_ == State::kOpen) {
      form_->mask(logits);
    } else {
      for (float& logit : logits) logit = -std::numeric_limits<float>::infinity();
    }
    if (next < logits.size()) logits[next] = wanted;
  }

  void accept(TokenId token) override {
    if (state_ == State::kForm) return form_->accept(token);
    if (met_ == mark_.size()) return;
    if (token == mark_[met_]) {
      state_ = State::kCall;
      ++met_;
      return;
    }
    state_ = State::kForm;
    form_->accept(token);
  }

  bool ended() const override { return state_ == State::kForm && form_->ended(); }

  std::unique_ptr<TokenConstraint> fork() const override {
    auto out = std::make_unique<CallOrForm>(form_->fork(), mark_);
    out->state_ = state_;
    out->met_ = met_;
    return out;
  }

 private:
  enum class State { kOpen, kCall, kForm };

  std::unique_ptr<TokenConstraint> form_;
  std::vector<TokenId> mark_;
  State state_ = State::kOpen;
  size_t met_ = 0;  // tokens of the mark
};

}  // namespace

std::shared_ptr<const TokenConstraint> call_or_form(const TokenConstraint& form, std::vector<TokenId> mark) {
  return std::make_shared<CallOrForm>(form.fork(), std::move(mark));
}

}  // namespace kvasir
