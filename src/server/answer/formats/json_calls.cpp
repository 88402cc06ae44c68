#include "server/answer/formats/json_calls.h"

#include <optional>
#include <utility>

#include "server/api/api_error.h"

namespace kvasir {
namespace {

constexpr std::string_view kCallSeparators = " \t\r\n,;[]";

// {"name": "…", "arguments": up to the brace of the arguments.
struct Head {
  std::string name;
  size_t arguments = 0;  // where they begin
};

class HeadParser {
 public:
  enum class Result { kHead, kMore, kOther };

  explicit HeadParser(std::string_view text) : text_(text) {}

  Result parse(Head& out) {
    const bool whole = literal("{") && key("name") && literal(":") && string(out.name) && literal(",") &&
                       (key("arguments") || key("parameters")) && literal(":") && literal("{");
    out.arguments = at_ - 1;
    if (whole) return Result::kHead;
    return ended_ ? Result::kMore : Result::kOther;
  }

 private:
  bool literal(std::string_view expected) {
    const size_t next = text_.find_first_not_of(kSpace, at_);
    const std::string_view rest = next == std::string_view::npos ? std::string_view() : text_.substr(next);
    if (rest.starts_with(expected)) {
      at_ = next + expected.size();
      return true;
    }
    if (expected.starts_with(rest)) ended_ = true;
    return false;
  }
  bool key(const std::string& name) { return literal("\"" + name + "\""); }

  bool string(std::string& out) {
    if (!literal("\"")) return false;
    const size_t begin = at_ - 1;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    if (at_ >= text_.size()) {
      ended_ = true;
      return false;
    }
    const auto parsed = read_bounded_json(text_.substr(begin, ++at_ - begin), {});
    const auto* json = std::get_if<Json>(&parsed);
    if (json == nullptr || !json->is_string()) return false;
    out = json->get<std::string>();
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool ended_ = false;
};

// A complete object: {name, arguments as text}. Read with bounds, since a model can be talked into any nesting.
std::optional<std::pair<std::string, std::string>> read_whole_call(std::string_view text) {
  try {
    const Json call = parse_json(text);
    const Fields fields(call);
    const Json* arguments = fields.find("arguments");
    if (arguments == nullptr) arguments = fields.find("parameters");
    const auto name = fields.text("name");
    if (!name || arguments == nullptr || !arguments->is_object()) return std::nullopt;
    return std::pair(*name, to_text(OrderedJson(*arguments)));
  } catch (const ApiError&) {
    return std::nullopt;
  }
}

class JsonCalls : public SteppedCallParser {
 public:
  explicit JsonCalls(std::string_view close) : close_(close) {}

 private:
  enum class State {
    kBefore,     // after the mark, before the brace
    kHead,       // in a call, before its arguments
    kWhole,      // in a call written in another order: read when complete
    kArguments,  // given out as they come
    kRest,       // of the call's object
    kAfter,      // behind a call
  };

  Step next(std::string_view text, CallSink& calls) override {
    switch (state_) {
      case State::kBefore:
        return read_before(text);
      case State::kHead:
        return read_head(text, calls);
      case State::kWhole:
        return read_whole(text, calls);
      case State::kArguments:
      case State::kRest:
        return read_inside(text, calls);
      case State::kAfter:
        break;
    }
    return read_after(text);
  }

  Step read_before(std::string_view text) {
    const size_t brace = text.find_first_not_of(kCallSeparators);
    if (brace == std::string_view::npos) return text.size() < kLongestGap ? more() : not_a_call();
    if (text[brace] != '{') return not_a_call();
    enter(State::kHead);
    return again(brace);
  }

  Step read_head(std::string_view text, CallSink& calls) {
    Head head;
    const HeadParser::Result result = HeadParser(text).parse(head);
    if (result == HeadParser::Result::kMore && text.size() < kLongestHead) return more();
    if (result != HeadParser::Result::kHead) {
      enter(State::kWhole);
      return again(0);
    }
    if (!calls.begin(head.name)) return not_a_call();
    enter(State::kArguments);
    return again(head.arguments);
  }

  Step read_whole(std::string_view text, CallSink& calls) {
    const size_t end = scan_.end_in(text);
    if (end == 0) return more();
    const auto call = read_whole_call(text.substr(0, end));
    if (!call || !calls.begin(call->first)) return not_a_call();
    calls.arguments(call->second);
    calls.end();
    enter(State::kAfter);
    return again(end);
  }

  Step read_inside(std::string_view text, CallSink& calls) {
    const size_t end = scan_.end_in(text);
    const size_t taken = end == 0 ? text.size() : end;
    if (state_ == State::kArguments) calls.arguments(text.substr(0, taken));
    if (end == 0) {
      scan_.forget(taken);
      return more(taken);
    }
    if (state_ == State::kArguments) {
      enter(State::kRest);
      scan_ = JsonScan(1);  // still within the call's own braces
    } else {
      calls.end();
      enter(State::kAfter);
    }
    return again(taken);
  }

  Step read_after(std::string_view text) {
    const size_t next = text.find_first_not_of(kCallSeparators);
    if (next == std::string_view::npos) return more(text.size());  // nobody hears of what is between calls
    const std::string_view rest = text.substr(next);
    if (!close_.empty()) {
      const Meets met = meets(rest, close_);
      if (met == Meets::kPart) return more(next);
      if (met == Meets::kWhole) return ended(next + close_.size());
    }
    if (rest.front() != '{') return ended(next);
    enter(State::kHead);
    return again(next);
  }

  void enter(State state) {
    state_ = state;
    scan_ = {};
  }

  std::string_view close_;
  State state_ = State::kBefore;
  JsonScan scan_;
};

}  // namespace

std::unique_ptr<CallParser> json_calls(std::string_view close) { return std::make_unique<JsonCalls>(close); }

}  // namespace kvasir
