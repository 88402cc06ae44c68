#include "server/answer/formats/named_calls.h"

#include <algorithm>
#include <cctype>

#include "server/answer/formats/json_calls.h"

namespace kvasir {
namespace {

using Result = NamedHead::Result;

class NamedCalls : public SteppedCallParser {
 public:
  explicit NamedCalls(const NamedSyntax& syntax) : syntax_(syntax) {}

 private:
  enum class State { kHead, kArguments, kFence, kEnd, kAfter };

  Step next(std::string_view text, CallSink& calls) override {
    switch (state_) {
      case State::kHead:
        return read_head(text, calls);
      case State::kArguments:
        return read_arguments(text, calls);
      case State::kFence:
        return skip(text, syntax_.fence, State::kEnd);
      case State::kEnd:
        return skip(text, syntax_.end, State::kAfter);
      case State::kAfter:
        break;
    }
    return read_after(text);
  }

  // Nothing of a head is taken before it is whole and of a tool that is there.
  Step read_head(std::string_view text, CallSink& calls) {
    if (text.size() >= kLongestHead) return not_a_call();
    const size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return text.size() < kLongestGap ? more() : not_a_call();
    const Meets met = meets(text.substr(first), syntax_.begin);
    if (met != Meets::kWhole) return met == Meets::kPart ? more() : not_a_call();
    const size_t at = first + syntax_.begin.size();
    const NamedHead head = syntax_.head(text.substr(at));
    if (head.result == Result::kMore) return more();
    if (head.result == Result::kOther || !calls.begin(head.name, head.id)) return not_a_call();
    state_ = State::kArguments;
    scan_ = {};
    return again(at + head.arguments);
  }

  Step read_arguments(std::string_view text, CallSink& calls) {
    const size_t end = scan_.end_in(text);
    const size_t taken = end == 0 ? text.size() : end;
    calls.arguments(text.substr(0, taken));
    if (end == 0) {
      scan_.forget(taken);
      return more(taken);
    }
    calls.end();
    state_ = State::kFence;
    return again(taken);
  }

  // The mark and the white space before it, if it is there.
  Step skip(std::string_view text, std::string_view mark, State then) {
    if (!mark.empty()) {
      const size_t first = text.find_first_not_of(kSpace);
      if (first == std::string_view::npos) return more(text.size());
      const Meets met = meets(text.substr(first), mark);
      if (met == Meets::kPart) return more(first);
      state_ = then;
      return again(first + (met == Meets::kWhole ? mark.size() : 0));
    }
    state_ = then;
    return again(0);
  }

  Step read_after(std::string_view text) {
    if (syntax_.section_end.empty()) return ended(0);
    const size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return more(text.size());
    const std::string_view rest = text.substr(first);
    const Meets end = meets(rest, syntax_.section_end);
    if (end == Meets::kWhole) return ended(first + syntax_.section_end.size());
    const Meets begin = meets(rest, syntax_.begin);
    if (begin == Meets::kWhole) {
      state_ = State::kHead;
      return again(first);
    }
    return end == Meets::kPart || begin == Meets::kPart ? more(first) : ended(first);
  }

  NamedSyntax syntax_;
  State state_ = State::kHead;
  JsonScan scan_;
};

// The brace that comes next, perhaps behind white space.
NamedHead before_brace(std::string_view text, size_t from, NamedHead head) {
  head.arguments = text.find_first_not_of(kSpace, from);
  if (head.arguments == std::string_view::npos) return {Result::kMore};
  head.result = text[head.arguments] == '{' ? Result::kHead : Result::kOther;
  return head;
}

// name[ARGS]{, or name[CALL_ID]id[ARGS]{.
NamedHead mistral_head(std::string_view text) {
  static constexpr std::string_view kId = "[CALL_ID]";
  static constexpr std::string_view kArguments = "[ARGS]";
  size_t at = end_of_name(text);
  NamedHead head{Result::kOther, std::string(text.substr(0, at))};
  if (text.substr(at).starts_with(kId)) at = end_of_name(text, at + kId.size());
  const std::string_view rest = text.substr(at);
  if (!rest.starts_with(kArguments)) {
    const bool may_come = kArguments.starts_with(rest) || kId.starts_with(rest);
    return {may_come && at > 0 ? Result::kMore : Result::kOther};
  }
  return before_brace(text, at + kArguments.size(), std::move(head));
}

NamedHead deepseek_head(std::string_view text) {
  static constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  static constexpr std::string_view kFence = "```json";
  const size_t first = end_of_name(text);
  const std::string_view rest = text.substr(first);
  if (const Meets met = meets(rest, kSeparator); met != Meets::kWhole)
    return {met == Meets::kPart ? Result::kMore : Result::kOther};
  const size_t behind = first + kSeparator.size();
  const size_t next = text.find_first_not_of(kSpace, behind);
  if (next == std::string_view::npos) return {Result::kMore};
  if (text[next] == '{') return before_brace(text, next, {Result::kOther, std::string(text.substr(0, first))});
  const size_t end = end_of_name(text, next);
  if (end == text.size()) return {Result::kMore};
  NamedHead head{Result::kOther, std::string(text.substr(next, end - next))};
  const size_t fence = text.find_first_not_of(kSpace, end);
  if (fence == std::string_view::npos) return {Result::kMore};
  if (text[fence] == '{') return before_brace(text, fence, std::move(head));
  const Meets met = meets(text.substr(fence), kFence);
  if (met != Meets::kWhole) return {met == Meets::kPart ? Result::kMore : Result::kOther};
  return before_brace(text, fence + kFence.size(), std::move(head));
}

// functions.NAME:0, and the whole of it is the call's id: the model is told results by it.
NamedHead kimi_head(std::string_view text) {
  static constexpr std::string_view kArguments = "<|tool_call_argument_begin|>";
  static constexpr std::string_view kPrefix = "functions.";
  const size_t at = text.find_first_not_of(kSpace);
  const size_t mark = text.find(kArguments);
  if (mark == std::string_view::npos || at == std::string_view::npos) return {Result::kMore};
  NamedHead head;
  head.id = text.substr(at, mark - at);
  head.id.erase(head.id.find_last_not_of(kSpace) + 1);
  head.name = head.id.starts_with(kPrefix) ? head.id.substr(kPrefix.size()) : head.id;
  const size_t colon = head.name.rfind(':');
  const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  if (colon != std::string::npos &&
      std::all_of(head.name.begin() + static_cast<std::ptrdiff_t>(colon) + 1, head.name.end(), digit)) {
    head.name.resize(colon);
  } else {
    head.id.clear();
  }
  return before_brace(text, mark + kArguments.size(), std::move(head));
}

constexpr NamedSyntax kMistralSyntax{"", mistral_head, "", "", ""};
constexpr NamedSyntax kDeepSeekSyntax{"<｜tool▁call▁begin｜>", deepseek_head, "```", "<｜tool▁call▁end｜>",
                                      "<｜tool▁calls▁end｜>"};
constexpr NamedSyntax kKimiSyntax{"<|tool_call_begin|>", kimi_head, "", "<|tool_call_end|>",
                                  "<|tool_calls_section_end|>"};

// Older models write a list of JSON behind the same mark.
class MistralCalls : public CallParser {
 public:
  CallRead read(std::string_view text, CallSink& calls) override {
    if (!inner_) {
      const size_t first = text.find_first_not_of(kSpace);
      if (first == std::string_view::npos)
        return {0, text.size() < kLongestGap ? CallRead::Status::kMore : CallRead::Status::kText};
      const bool json = std::string_view("[{,;]").find(text[first]) != std::string_view::npos;
      inner_ = json ? json_calls("") : named_calls(kMistralSyntax);
    }
    return inner_->read(text, calls);
  }

 private:
  std::unique_ptr<CallParser> inner_;
};

}  // namespace

std::unique_ptr<CallParser> named_calls(const NamedSyntax& syntax) { return std::make_unique<NamedCalls>(syntax); }
std::unique_ptr<CallParser> mistral_calls() { return std::make_unique<MistralCalls>(); }
std::unique_ptr<CallParser> deepseek_calls() { return named_calls(kDeepSeekSyntax); }
std::unique_ptr<CallParser> kimi_calls() { return named_calls(kKimiSyntax); }

}  // namespace kvasir
