#include "server/answer/call_or_form.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

namespace kvasir {
namespace {

constexpr std::string_view kWhite = " \t\r\n";

std::string_view without_white(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kWhite), text.size()));
}

class CallOrForm : public TokenConstraint {
 public:
  CallOrForm(std::unique_ptr<TokenConstraint> form, std::shared_ptr<const CallMarks> marks)
      : form_(std::move(form)), marks_(std::move(marks)) {}

  bool prepare(std::size_t& work) override {
    const bool held = state_ == State::kOpen || state_ == State::kForm;
    return !held || form_->prepare(work);
  }

  void mask(std::span<float> logits) override {
    if (state_ == State::kForm) return form_->mask(logits);
    if (state_ == State::kCall) return;  // a call goes as it goes
    std::vector<std::pair<TokenId, float>> begins;
    const auto keep = [&](const std::vector<TokenId>& tokens) {
      for (const TokenId token : tokens) {
        if (static_cast<size_t>(token) < logits.size())
          begins.emplace_back(token, logits[static_cast<size_t>(token)]);
      }
    };
    keep(marks_->next(written_));
    if (state_ == State::kOpen) {
      keep(marks_->specials());
      form_->mask(logits);
    } else {
      std::ranges::fill(logits, -std::numeric_limits<float>::infinity());
    }
    for (const auto& [token, logit] : begins) logits[static_cast<size_t>(token)] = logit;
  }

  void accept(TokenId token) override {
    if (state_ == State::kForm) return form_->accept(token);
    if (state_ == State::kCall) return;
    if (state_ == State::kOpen && std::ranges::find(marks_->specials(), token) != marks_->specials().end()) {
      state_ = State::kCall;
    } else if (std::ranges::find(marks_->next(written_), token) != marks_->next(written_).end()) {
      std::string_view text = marks_->bytes_of(token);
      if (written_.empty()) text = without_white(text);
      written_ += text;
      state_ = marks_->whole(written_) ? State::kCall : State::kMark;
    } else {
      form_->accept(token);
      // White space is before either.
      const std::string& text = marks_->bytes_of(token);
      if (text.empty() || !without_white(text).empty()) state_ = State::kForm;
    }
  }

  bool ended() const override { return (state_ == State::kOpen || state_ == State::kForm) && form_->ended(); }

  std::unique_ptr<TokenConstraint> fork() const override {
    auto out = std::make_unique<CallOrForm>(form_->fork(), marks_);
    out->state_ = state_;
    out->written_ = written_;
    return out;
  }

 private:
  enum class State { kOpen, kMark, kCall, kForm };

  std::unique_ptr<TokenConstraint> form_;
  std::shared_ptr<const CallMarks> marks_;
  State state_ = State::kOpen;
  std::string written_;  // of a mark
};

}  // namespace

CallMarks::CallMarks(std::shared_ptr<const grammar::Vocabulary> vocabulary, std::vector<std::string> texts,
                     std::vector<TokenId> specials)
    : vocabulary_(std::move(vocabulary)), texts_(std::move(texts)), specials_(std::move(specials)) {
  for (const std::string& mark : texts_) {
    for (size_t written = 0; written < mark.size(); ++written) next_[mark.substr(0, written)];
  }
  // The longest first: a token after which nothing goes on is not begun with.
  std::vector<std::string> beginnings;
  for (const auto& [so_far, tokens] : next_) beginnings.push_back(so_far);
  std::ranges::sort(beginnings, std::greater(), &std::string::size);
  for (const std::string& so_far : beginnings) {
    for (size_t i = 0; i < vocabulary_->size(); ++i) {
      const auto token = static_cast<TokenId>(i);
      std::string_view text = vocabulary_->bytes_of(token);
      if (so_far.empty()) text = without_white(text);
      if (text.empty()) continue;
      const std::string written = so_far + std::string(text);
      if (whole(written) || !next(written).empty()) next_[so_far].push_back(token);
    }
  }
}

bool CallMarks::whole(std::string_view written) const {
  return std::ranges::any_of(texts_, [&](const std::string& mark) { return written.starts_with(mark); });
}

const std::vector<TokenId>& CallMarks::next(const std::string& written) const {
  static const std::vector<TokenId> kNone;
  const auto found = next_.find(written);
  return found == next_.end() ? kNone : found->second;
}

const std::string& CallMarks::bytes_of(TokenId token) const {
  static const std::string kNone;
  return static_cast<size_t>(token) < vocabulary_->size() ? vocabulary_->bytes_of(token) : kNone;
}

std::shared_ptr<const TokenConstraint> call_or_form(const TokenConstraint& form,
                                                    std::shared_ptr<const CallMarks> marks) {
  return std::make_shared<CallOrForm>(form.fork(), std::move(marks));
}

}  // namespace kvasir
