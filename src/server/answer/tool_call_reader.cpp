#include "server/answer/tool_call_reader.h"

#include <algorithm>
#include <utility>

#include "server/random_id.h"

namespace kvasir {

bool CallCollector::begin(const std::string& name, const std::string& id) {
  const auto found = std::ranges::find(*reading_.tools, name, &ReadableTool::name);
  if (found == reading_.tools->end()) return false;
  tool_ = &*found;
  if (full_) return true;  // read, and told to nobody
  std::string own = reading_.id_prefix + random_hex(96).substr(0, reading_.id_digits);
  out_.call({calls_++, id.empty() ? std::move(own) : id, name});
  return true;
}

void CallCollector::arguments(std::string_view json) {
  if (!full_) out_.arguments(json);
}

std::vector<AnswerPart> ToolCallReader::push(std::string_view text) {
  held_ += text;
  while (!held_.empty() && step() == Step::kAgain) {
  }
  return out_.take();
}

std::vector<AnswerPart> ToolCallReader::finish() {
  if (state_ == State::kCalls && calls() == calls_before_) no_call();
  if (state_ == State::kText || state_ == State::kPlain) give_text(std::exchange(held_, {}));
  return out_.take();
}

ToolCallReader::Step ToolCallReader::step() {
  switch (state_) {
    case State::kText:
      return format().where == ToolFormat::Where::kAtStart ? read_start() : read_text();
    case State::kCalls:
      return read_calls();
    case State::kPlain:
      give_text(std::exchange(held_, {}));
      return Step::kWait;
    case State::kDone:
      held_.clear();
      break;
  }
  return Step::kWait;
}

// The answer is a call from its first character on, or none.
ToolCallReader::Step ToolCallReader::read_start() {
  const size_t first = held_.find_first_not_of(kSpace);
  if (first == std::string::npos && held_.size() < kLongestGap) return Step::kWait;
  const std::string_view rest =
      first == std::string::npos ? std::string_view() : std::string_view(held_).substr(first);
  bool may_come = false;
  for (const ToolFormat::Mark& mark : format().marks) {
    const Meets met = rest.empty() ? Meets::kNot : meets(rest, mark.text);
    may_come = may_come || met == Meets::kPart;
    if (met != Meets::kWhole) continue;
    open({first, &mark});
    return Step::kAgain;
  }
  if (may_come) return Step::kWait;
  state_ = State::kPlain;
  return Step::kAgain;
}

ToolCallReader::Step ToolCallReader::read_text() {
  if (just_called_) held_.erase(0, std::min(held_.find_first_not_of(kSpace), held_.size()));
  if (held_.empty()) return Step::kWait;
  const Found found = find_mark();
  if (found.mark != nullptr) {
    open(found);
    return Step::kAgain;
  }
  const size_t certain = certain_text();
  give_text(std::string_view(held_).substr(0, certain));
  held_.erase(0, certain);
  return Step::kWait;
}

ToolCallReader::Found ToolCallReader::find_mark() const {
  Found first;
  for (const ToolFormat::Mark& mark : format().marks) {
    const size_t at = held_.find(mark.text);
    if (at < first.at) first = {at, &mark};
  }
  return first;
}

// All but the end that is white space, not without end, and then the beginning of a mark.
size_t ToolCallReader::certain_text() const {
  const std::string_view text = held_;
  size_t unfinished = 0;
  for (const ToolFormat::Mark& mark : format().marks)
    unfinished = std::max(unfinished, unfinished_mark(text, mark.text));
  const size_t space = text.substr(0, text.size() - unfinished).find_last_not_of(kSpace);
  const size_t certain = space == std::string_view::npos ? 0 : space + 1;
  return text.size() - certain < kLongestGap ? certain : text.size() - unfinished;
}

// The text before the mark goes out, but for the white space between.
void ToolCallReader::open(const Found& found) {
  const size_t end = held_.find_last_not_of(kSpace, found.at == 0 ? std::string::npos : found.at - 1);
  const size_t text = found.at == 0 || end == std::string::npos || end >= found.at ? 0 : end + 1;
  give_text(std::string_view(held_).substr(0, text));
  const bool consumed = found.mark->of == ToolFormat::Mark::Of::kFormat;
  const size_t behind = found.at + (consumed ? found.mark->text.size() : 0);
  kept_mark_ = consumed ? 0 : found.mark->text.size();
  opening_ = held_.substr(text, behind - text);
  held_.erase(0, behind);
  parser_ = (found.mark->calls != nullptr ? found.mark->calls : format().calls)();
  calls_before_ = calls();
  state_ = State::kCalls;
}

ToolCallReader::Step ToolCallReader::read_calls() {
  const CallRead read = parser_->read(held_, calls_);
  const bool called = calls() > calls_before_;
  if (called) {
    opening_.clear();
    just_called_ = true;
  } else {
    opening_.append(held_, 0, read.taken);
  }
  held_.erase(0, read.taken);
  if (read.taken > 0) kept_mark_ = 0;
  if (calls_.full()) {
    state_ = State::kDone;
    return Step::kAgain;
  }
  if (read.status == CallRead::Status::kMore) return Step::kWait;
  if (read.status == CallRead::Status::kText) {
    no_call();
  } else {
    state_ = format().where == ToolFormat::Where::kAtStart ? State::kPlain : State::kText;
  }
  return Step::kAgain;
}

void ToolCallReader::give_text(std::string_view text) {
  if (text.empty() || calls_.reading().forced) return;
  just_called_ = false;
  out_.text(text);
}

// What was taken for a call goes out as it came.
void ToolCallReader::no_call() {
  // A mark that is the call's own beginning must not be found a second time.
  const size_t mark = std::min(std::exchange(kept_mark_, 0), held_.size());
  opening_.append(held_, 0, mark);
  held_.erase(0, mark);
  give_text(std::exchange(opening_, {}));
  state_ = format().where == ToolFormat::Where::kAtStart ? State::kPlain : State::kText;
}

}  // namespace kvasir
