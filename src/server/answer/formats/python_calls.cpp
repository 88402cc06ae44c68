#include "server/answer/formats/python_calls.h"

#include <fmt/format.h>

#include <utility>

#include "server/answer/formats/json_calls.h"
#include "server/answer/formats/tool_value.h"

namespace kvasir {
namespace {

constexpr std::string_view kPythonCallsEnd = "<|tool_call_end|>";

// What stands between a call's parentheses to JSON, as it comes: names and values, each a string, a number, a word, a
// list, a tuple or a dictionary. A value without a name gets its number for one.
class PythonArguments {
 public:
  // Takes all of `text` but what follows the closing parenthesis, and appends its JSON.
  size_t take(std::string_view text, std::string& json) {
    size_t at = 0;
    while (at < text.size() && !done_) step(text[at++], json);
    return at;
  }
  bool done() const { return done_; }

 private:
  void step(char c, std::string& json) {
    if (quote_ != 0) return read_string(c, json);
    if (kSpace.find(c) != std::string_view::npos) return;
    const bool outside = open_.empty();
    if (c == '=' && outside && name_.empty()) {
      name_ = std::exchange(bare_, {});
    } else if (c == '"' || c == '\'') {
      bare_.clear();  // an r or an f before it
      begin_value(json);
      json += '"';
      quote_ = c;
    } else if (c == '[' || c == '{' || c == '(') {
      begin_value(json);
      open_ += c;
      json += c == '{' ? '{' : '[';
    } else if (c == ',' || c == ')' || c == ']' || c == '}') {
      end_value(c, json);
    } else if (c == ':' && !outside) {
      if (!bare_.empty()) {
        begin_value(json);
        json += fmt::format("\"{}\"", json_escaped(std::exchange(bare_, {})));
      }
      json += ':';
    } else {
      bare_ += c;
    }
  }

  void begin_value(std::string& json) {
    if (std::exchange(comma_, false)) json += ',';
    if (!open_.empty() || named_) return;
    json += fmt::format("\"{}\":", name_.empty() ? std::to_string(count_) : json_escaped(name_));
    named_ = true;
  }

  void end_value(char c, std::string& json) {
    if (!bare_.empty()) {
      begin_value(json);
      json += json_value(std::exchange(bare_, {}));
    }
    if (c == ',') {
      comma_ = open_.empty() ? named_ : true;
    } else if (open_.empty()) {
      done_ = c == ')';
    } else {
      comma_ = false;
      json += open_.back() == '{' ? '}' : ']';
      open_.pop_back();
      return;
    }
    if (!open_.empty() || !std::exchange(named_, false)) return;
    name_.clear();
    ++count_;
  }

  void read_string(char c, std::string& json) {
    if (std::exchange(escaped_, false)) return read_escaped(c, json);
    if (c == '\\') {
      escaped_ = true;
    } else if (c == quote_) {
      json += '"';
      quote_ = 0;
    } else {
      json += json_escaped({&c, 1});
    }
  }

  static void read_escaped(char c, std::string& json) {
    if (c == '\n') return;  // the line goes on
    if (c == 'x') {
      json += "\\u00";  // two digits follow, as there
    } else if (std::string_view("ntrbfu\"\\").find(c) != std::string_view::npos) {
      json += '\\';
      json += c;
    } else if (c == '\'') {
      json += c;
    } else {
      json += json_escaped("\\") + json_escaped({&c, 1});
    }
  }

  char quote_ = 0;  // of the string that it is in
  bool escaped_ = false;
  bool comma_ = false;  // stands before the next value
  bool named_ = false;  // the value's name is written
  bool done_ = false;
  int count_ = 0;  // of values that are over
  std::string name_;
  std::string open_;  // brackets, braces and parentheses
  std::string bare_;
};

class ListedPythonCalls : public SteppedCallParser {
 private:
  enum class State { kHead, kArguments, kAfter };

  Step next(std::string_view text, CallSink& calls) override {
    switch (state_) {
      case State::kHead:
        return read_head(text, calls);
      case State::kArguments:
        return read_arguments(text, calls);
      case State::kAfter:
        break;
    }
    const size_t first = text.find_first_not_of(" \t\r\n]");
    if (first == std::string_view::npos) return more(text.size());
    if (text[first] == ',') {
      state_ = State::kHead;
      return again(first + 1);
    }
    const Meets end = meets(text.substr(first), kPythonCallsEnd);
    if (end == Meets::kPart) return more(first);
    return ended(first + (end == Meets::kWhole ? kPythonCallsEnd.size() : 0));
  }

  // Nothing of a head is taken before it is whole and of a tool that is there.
  Step read_head(std::string_view text, CallSink& calls) {
    if (text.size() >= kLongestHead) return not_a_call();
    const size_t name = text.find_first_not_of(" \t\r\n[");
    if (name == std::string_view::npos) return text.size() < kLongestGap ? more() : not_a_call();
    const size_t end = end_of_name(text, name);
    if (end == text.size()) return more();
    if (text[end] != '(' || !calls.begin(std::string(text.substr(name, end - name)))) return not_a_call();
    calls.arguments("{");
    arguments_ = {};
    state_ = State::kArguments;
    return again(end + 1);
  }

  Step read_arguments(std::string_view text, CallSink& calls) {
    std::string json;
    const size_t taken = arguments_.take(text, json);
    if (arguments_.done()) json += '}';
    calls.arguments(json);
    if (!arguments_.done()) return more(taken);
    calls.end();
    state_ = State::kAfter;
    return again(taken);
  }

  State state_ = State::kHead;
  PythonArguments arguments_;
};

// What stands behind the first bracket says which of the two it is.
class PythonOrJsonCalls : public CallParser {
 public:
  CallRead read(std::string_view text, CallSink& calls) override {
    if (calls_ == nullptr) {
      const size_t first = text.find_first_not_of(" \t\r\n[");
      if (first == std::string_view::npos) {
        return {0, text.size() < kLongestGap ? CallRead::Status::kMore : CallRead::Status::kText};
      }
      calls_ = text[first] == '{' ? json_calls(kPythonCallsEnd) : std::make_unique<ListedPythonCalls>();
    }
    return calls_->read(text, calls);
  }

 private:
  std::unique_ptr<CallParser> calls_;
};

}  // namespace

std::unique_ptr<CallParser> python_calls() { return std::make_unique<PythonOrJsonCalls>(); }

}  // namespace kvasir
