#include "server/answer/formats/tagged_calls.h"

#include <algorithm>

#include "server/answer/formats/tool_value.h"

namespace kvasir {
namespace {

using Newlines = TagSyntax::Newlines;

class TaggedCalls : public SteppedCallParser {
 public:
  explicit TaggedCalls(const TagSyntax& syntax) : syntax_(syntax) {}

 private:
  enum class State { kHead, kBetween, kKey, kString, kValue, kAfter };

  Step next(std::string_view text, CallSink& calls) override {
    switch (state_) {
      case State::kHead:
        return read_head(text, calls);
      case State::kBetween:
        return read_between(text, calls);
      case State::kKey:
        return read_key(text, calls);
      case State::kString:
        return read_string(text, calls);
      case State::kValue:
        return read_value(text, calls);
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
    const Meets begins = meets(text.substr(first), syntax_.call_begin);
    if (begins != Meets::kWhole) return begins == Meets::kPart ? more() : not_a_call();
    const size_t name = first + syntax_.call_begin.size();
    const size_t end = end_of_name(text, name);
    if (end == text.size()) return more();
    const Meets ends = meets(text.substr(end), syntax_.name_end);
    if (ends == Meets::kPart) return more();
    if (ends == Meets::kNot || end == name) return not_a_call();
    if (!calls.begin(std::string(text.substr(name, end - name)))) return not_a_call();
    state_ = State::kBetween;
    first_ = true;
    return again(end + syntax_.name_end.size());
  }

  // Between arguments. What is neither an argument nor an end was not meant for us.
  Step read_between(std::string_view text, CallSink& calls) {
    const size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return more(text.size());
    const std::string_view rest = text.substr(first);
    const Meets param = meets(rest, syntax_.param_begin);
    if (param == Meets::kWhole) {
      state_ = State::kKey;
      return again(first + syntax_.param_begin.size());
    }
    const Meets end = meets(rest, syntax_.call_end);
    const Meets section_end = syntax_.section_end.empty() ? Meets::kNot : meets(rest, syntax_.section_end);
    if (end == Meets::kWhole || section_end == Meets::kWhole) {
      calls.arguments(first_ ? "{}" : "}");
      calls.end();
      state_ = State::kAfter;
      return again(first + (end == Meets::kWhole ? syntax_.call_end.size() : 0));
    }
    const bool may_come = param == Meets::kPart || end == Meets::kPart || section_end == Meets::kPart;
    return may_come ? more(first) : again(first + 1);
  }

  Step read_key(std::string_view text, CallSink& calls) {
    const size_t end = text.find(syntax_.key_end);
    const size_t behind = end == std::string_view::npos ? end : end + syntax_.key_end.size();
    const size_t value = behind == std::string_view::npos ? behind : text.find(syntax_.value_begin, behind);
    if (value == std::string_view::npos) {
      if (text.size() < kLongestHead) return more();
      state_ = State::kBetween;
      return again(0);
    }
    key_ = text.substr(0, end);
    key_.erase(0, std::min(key_.find_first_not_of(kSpace), key_.size()));
    key_.erase(key_.find_last_not_of(kSpace) + 1);
    const std::string_view attributes = text.substr(behind, value - behind);
    said_ = attributes.find("string=\"true\"") != std::string_view::npos    ? Said::kString
            : attributes.find("string=\"false\"") != std::string_view::npos ? Said::kJson
                                                                            : Said::kNothing;
    const bool string =
        said_ == Said::kString || (said_ == Said::kNothing && takes_only_strings(calls.parameters(), key_));
    calls.arguments((first_ ? "{\"" : ",\"") + json_escaped(key_) + (string ? "\":\"" : "\":"));
    first_ = false;
    searched_ = 0;
    begun_ = false;
    state_ = string ? State::kString : State::kValue;
    return again(value + syntax_.value_begin.size());
  }

  Step read_string(std::string_view text, CallSink& calls) {
    const bool around = syntax_.newlines == Newlines::kAround;
    if (!begun_ && around) {
      if (text.empty()) return more();
      begun_ = true;
      return again(text.front() == '\n' ? 1 : 0);
    }
    const size_t end = text.find(syntax_.value_end);
    size_t given = end == std::string_view::npos ? text.size() - unfinished_mark(text, syntax_.value_end) : end;
    if (end == std::string_view::npos) {
      if (around && given > 0 && text[given - 1] == '\n') --given;  // perhaps the one before the end
      calls.arguments(json_escaped(text.substr(0, given)));
      return more(given);
    }
    if (around && given > 0 && text[given - 1] == '\n') --given;
    calls.arguments(json_escaped(text.substr(0, given)) + "\"");
    state_ = State::kBetween;
    return again(end + syntax_.value_end.size());
  }

  Step read_value(std::string_view text, CallSink& calls) {
    const size_t end = text.find(syntax_.value_end, searched_);
    if (end == std::string_view::npos) {
      searched_ = text.size() - std::min(text.size(), syntax_.value_end.size() - 1);
      return more();
    }
    std::string_view value = text.substr(0, end);
    if (syntax_.newlines == Newlines::kAround) {
      if (value.starts_with('\n')) value.remove_prefix(1);
      if (value.ends_with('\n')) value.remove_suffix(1);
    }
    calls.arguments(said_ == Said::kJson ? json_value(value) : json_value(value, calls.parameters(), key_));
    state_ = State::kBetween;
    return again(end + syntax_.value_end.size());
  }

  Step read_after(std::string_view text) {
    if (syntax_.section_end.empty()) return ended(0);
    const size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return more(text.size());
    const std::string_view rest = text.substr(first);
    const Meets end = meets(rest, syntax_.section_end);
    if (end == Meets::kWhole) return ended(first + syntax_.section_end.size());
    const Meets begin = meets(rest, syntax_.call_begin);
    if (begin == Meets::kWhole) {
      state_ = State::kHead;
      return again(first);
    }
    return end == Meets::kPart || begin == Meets::kPart ? more(first) : ended(first);
  }

  enum class Said { kNothing, kString, kJson };  // by an attribute

  TagSyntax syntax_;
  State state_ = State::kHead;
  bool first_ = true;  // no argument came yet
  std::string key_;
  Said said_ = Said::kNothing;
  bool begun_ = false;   // something of a string was looked at
  size_t searched_ = 0;  // of a value: where its end was not found
};

constexpr TagSyntax kQwenSyntax{
    "<function=", ">", "<parameter=", ">", "", "</parameter>", "</function>", "</tool_call>", Newlines::kAround};
constexpr TagSyntax kSeedSyntax{
    "<function=", ">", "<parameter=", ">", "", "</parameter>", "</function>", "</seed:tool_call>", Newlines::kText};
constexpr TagSyntax kGlmSyntax{
    "", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>", "", Newlines::kText};
constexpr TagSyntax kMiniMaxSyntax{"<invoke name=\"", "\">",       "<parameter name=\"",   "\"",           ">",
                                   "</parameter>",    "</invoke>", "</minimax:tool_call>", Newlines::kText};
constexpr TagSyntax kFunctionCallsSyntax{"<｜DSML｜invoke name=\"",
                                         "\">",
                                         "<｜DSML｜parameter name=\"",
                                         "\"",
                                         ">",
                                         "</｜DSML｜parameter>",
                                         "</｜DSML｜invoke>",
                                         "</｜DSML｜function_calls>",
                                         Newlines::kText};
constexpr TagSyntax kToolCallsSyntax{"<｜DSML｜invoke name=\"",
                                     "\">",
                                     "<｜DSML｜parameter name=\"",
                                     "\"",
                                     ">",
                                     "</｜DSML｜parameter>",
                                     "</｜DSML｜invoke>",
                                     "</｜DSML｜tool_calls>",
                                     Newlines::kText};

}  // namespace

std::unique_ptr<CallParser> qwen_coder_calls() { return std::make_unique<TaggedCalls>(kQwenSyntax); }
std::unique_ptr<CallParser> seed_calls() { return std::make_unique<TaggedCalls>(kSeedSyntax); }
std::unique_ptr<CallParser> glm_calls() { return std::make_unique<TaggedCalls>(kGlmSyntax); }
std::unique_ptr<CallParser> minimax_calls() { return std::make_unique<TaggedCalls>(kMiniMaxSyntax); }
std::unique_ptr<CallParser> dsml_function_calls() { return std::make_unique<TaggedCalls>(kFunctionCallsSyntax); }
std::unique_ptr<CallParser> dsml_tool_calls() { return std::make_unique<TaggedCalls>(kToolCallsSyntax); }

}  // namespace kvasir
