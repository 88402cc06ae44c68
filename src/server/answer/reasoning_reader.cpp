#include "server/answer/reasoning_reader.h"

#include <algorithm>
#include <utility>

#include "server/answer/formats/call_parser.h"

namespace kvasir {

std::vector<AnswerPart> ReasoningReader::push(std::string_view text) {
  held_ += text;
  while (!held_.empty() && step() == Step::kAgain) {
  }
  return out_.take();
}

std::vector<AnswerPart> ReasoningReader::finish() {
  if (state_ == State::kInside || state_ == State::kFirst) {
    held_.erase(held_.find_last_not_of('\n') + 1);
    out_.reasoning(held_);
  } else if (state_ != State::kAfter) {
    out_.text(held_);
  }
  held_.clear();
  return out_.take();
}

ReasoningReader::Step ReasoningReader::step() {
  switch (state_) {
    case State::kStart:
      return read_start();
    case State::kFirst:
      skip("\n");
      if (held_.empty()) return Step::kWait;
      state_ = State::kInside;
      return Step::kAgain;
    case State::kInside:
      return read_inside();
    case State::kAfter:
      return read_after();
    case State::kText:
      break;
  }
  return read_text();
}

void ReasoningReader::skip(std::string_view letters) {
  held_.erase(0, std::min(held_.find_first_not_of(letters), held_.size()));
}

ReasoningReader::Step ReasoningReader::read_start() {
  const size_t first = held_.find_first_not_of(kSpace);
  if (first == std::string::npos && held_.size() < kLongestGap) return Step::kWait;
  const Meets met =
      first == std::string::npos ? Meets::kNot : meets(std::string_view(held_).substr(first), format_.open);
  if (met == Meets::kPart) return Step::kWait;
  if (met == Meets::kWhole) held_.erase(0, first + format_.open.size());
  state_ = met == Meets::kWhole ? State::kFirst : State::kText;
  return Step::kAgain;
}

ReasoningReader::Step ReasoningReader::read_inside() {
  size_t end = held_.find(format_.close);
  size_t behind = end == std::string::npos ? end : end + format_.close.size();
  size_t unfinished = unfinished_mark(held_, format_.close);
  for (const std::string_view mark : format_.cut_by) {
    const size_t at = held_.find(mark);
    if (at < end) end = behind = at;
    unfinished = std::max(unfinished, unfinished_mark(held_, mark));
  }
  // Newlines may be those before the end.
  const std::string_view thoughts =
      std::string_view(held_).substr(0, end == std::string::npos ? held_.size() - unfinished : end);
  const size_t last = thoughts.find_last_not_of('\n');
  const size_t kept = last == std::string_view::npos ? 0 : last + 1;
  const bool too_many = end == std::string::npos && thoughts.size() - kept >= kLongestGap;
  const size_t given = too_many ? thoughts.size() : kept;
  out_.reasoning(thoughts.substr(0, given));
  held_.erase(0, end == std::string::npos ? given : behind);
  if (end == std::string::npos) return Step::kWait;
  state_ = State::kAfter;
  return Step::kAgain;
}

ReasoningReader::Step ReasoningReader::read_after() {
  skip(kSpace);
  if (held_.empty()) return Step::kWait;
  if (!format_.answer_open.empty()) {
    const Meets met = meets(held_, format_.answer_open);
    if (met == Meets::kPart) return Step::kWait;
    if (met == Meets::kWhole) {
      held_.erase(0, format_.answer_open.size());
      skip(kSpace);
    }
  }
  state_ = State::kText;
  return Step::kAgain;
}

ReasoningReader::Step ReasoningReader::read_text() {
  const bool reopens = format_.where == ReasoningFormat::Where::kAnywhere;
  const size_t open = reopens ? held_.find(format_.open) : std::string::npos;
  const size_t close = format_.answer_close.empty() ? std::string::npos : held_.find(format_.answer_close);
  if (open == std::string::npos && close == std::string::npos) {
    const size_t unfinished =
        std::max(reopens ? unfinished_mark(held_, format_.open) : 0, unfinished_mark(held_, format_.answer_close));
    const size_t certain = held_.size() - unfinished;
    out_.text(std::string_view(held_).substr(0, certain));
    held_.erase(0, certain);
    return Step::kWait;
  }
  const size_t at = std::min(open, close);
  out_.text(std::string_view(held_).substr(0, at));
  held_.erase(0, at + (at == open ? format_.open.size() : format_.answer_close.size()));
  if (at == open) state_ = State::kFirst;
  return Step::kAgain;
}

}  // namespace kvasir
