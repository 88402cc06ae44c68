#include "server/answer/channel_reader.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kvasir {
namespace {

constexpr std::string_view kStartMark = "<|start|>";
constexpr std::string_view kMessageMark = "<|message|>";
constexpr std::string_view kChannelMark = "<|channel|>";
constexpr std::array<std::string_view, 4> kEndMarks{"<|end|>", "<|call|>", "<|return|>", kStartMark};
constexpr std::string_view kRecipientMark = "to=functions.";

// Whether this can be the beginning of a message's head: a mark, or whom it is to.
bool may_be_head(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return text.size() < kLongestGap;
  const std::string_view rest = text.substr(first);
  static constexpr std::array<std::string_view, 4> kHeads{kChannelMark, kMessageMark, kStartMark, "to="};
  return std::ranges::any_of(kHeads, [&](std::string_view head) { return meets(rest, head) != Meets::kNot; });
}

}  // namespace

ChannelReader::ChannelReader(const std::optional<ToolReading>& tools, Begins begins)
    : state_(begins == Begins::kInText ? State::kBody : State::kHead) {
  if (tools) calls_.emplace(*tools, out_);
}

std::vector<AnswerPart> ChannelReader::push(std::string_view text) {
  held_ += text;
  while (!held_.empty() && step() == Step::kAgain) {
  }
  return out_.take();
}

std::vector<AnswerPart> ChannelReader::finish() {
  if (state_ == State::kBody || state_ == State::kPlain) give(held_);
  if (state_ == State::kHead && first_ && !may_be_head(held_)) out_.text(held_);
  held_.clear();
  return out_.take();
}

ChannelReader::Step ChannelReader::step() {
  switch (state_) {
    case State::kHead:
      return read_head();
    case State::kBody:
      return read_body();
    case State::kBetween:
      return read_between();
    case State::kPlain:
      out_.text(std::exchange(held_, {}));
      return Step::kWait;
    case State::kDone:
      held_.clear();
      break;
  }
  return Step::kWait;
}

ChannelReader::Step ChannelReader::read_head() {
  const size_t end = held_.find(kMessageMark);
  if (end == std::string::npos) {
    const bool lost = first_ ? !may_be_head(held_) : false;
    if (!lost && held_.size() < kLongestHead) return Step::kWait;
    state_ = State::kPlain;  // no message of this kind
    return Step::kAgain;
  }
  open_body(std::string_view(held_).substr(0, end));
  held_.erase(0, end + kMessageMark.size());
  first_ = false;
  state_ = State::kBody;
  return Step::kAgain;
}

// "<|channel|>commentary to=functions.NAME <|constrain|>json", or with the recipient before the channel.
void ChannelReader::open_body(std::string_view head) {
  const size_t to = head.find(kRecipientMark);
  body_ = Body::kText;
  if (to != std::string_view::npos && calls_) {
    const size_t name = to + kRecipientMark.size();
    if (calls_->begin(std::string(head.substr(name, end_of_name(head, name) - name)))) body_ = Body::kCall;
  }
  const size_t channel = head.rfind(kChannelMark);
  if (body_ == Body::kText && channel != std::string_view::npos) {
    const std::string_view word = head.substr(channel + kChannelMark.size());
    if (word.starts_with("analysis")) body_ = Body::kReasoning;
  }
}

ChannelReader::Step ChannelReader::read_body() {
  size_t end = std::string::npos;
  size_t behind = 0;
  size_t unfinished = 0;
  for (const std::string_view mark : kEndMarks) {
    const size_t at = held_.find(mark);
    unfinished = std::max(unfinished, unfinished_mark(held_, mark));
    if (at >= end) continue;
    end = at;
    behind = at + (mark == kStartMark ? 0 : mark.size());
  }
  const size_t given = end == std::string::npos ? held_.size() - unfinished : end;
  give(std::string_view(held_).substr(0, given));
  held_.erase(0, end == std::string::npos ? given : behind);
  if (end == std::string::npos) return Step::kWait;
  if (body_ == Body::kCall) calls_->end();
  state_ = calls_ && calls_->full() ? State::kDone : State::kBetween;
  return Step::kAgain;
}

// Nothing but the next message's start is expected here.
ChannelReader::Step ChannelReader::read_between() {
  const size_t start = held_.find(kStartMark);
  if (start == std::string::npos) {
    held_.erase(0, held_.size() - unfinished_mark(held_, kStartMark));
    return Step::kWait;
  }
  held_.erase(0, start + kStartMark.size());
  state_ = State::kHead;
  return Step::kAgain;
}

void ChannelReader::give(std::string_view text) {
  switch (state_ == State::kPlain ? Body::kText : body_) {
    case Body::kText:
      out_.text(text);
      break;
    case Body::kReasoning:
      out_.reasoning(text);
      break;
    case Body::kCall:
      calls_->arguments(text);
      break;
  }
}

}  // namespace kvasir
