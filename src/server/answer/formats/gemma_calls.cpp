#include "server/answer/formats/gemma_calls.h"

#include <algorithm>
#include <utility>

namespace kvasir {
namespace {

constexpr std::string_view kGemmaQuote = "<|\"|>";
constexpr std::string_view kGemmaCallEnd = "<tool_call|>";

// Gemma's notation to JSON, as it comes.
class GemmaArguments {
 public:
  // Takes what is certain of `text` and appends its JSON.
  size_t take(std::string_view text, std::string& json) {
    size_t at = 0;
    while (at < text.size() && !done_) {
      const size_t taken = step(text.substr(at), json);
      if (taken == 0) break;
      at += taken;
    }
    return at;
  }
  bool done() const { return done_; }  // the brace of the arguments was closed

 private:
  enum class In { kOpen, kQuoted, kString };  // kString: between JSON's own quotes

  // 0: what comes next decides.
  size_t step(std::string_view text, std::string& json) {
    switch (in_) {
      case In::kQuoted:
        return read_quoted(text, json);
      case In::kString:
        return read_string(text.front(), json);
      case In::kOpen:
        break;
    }
    const Meets quote = meets(text, kGemmaQuote);
    if (quote == Meets::kPart) return 0;
    if (quote == Meets::kWhole) {
      json += '"';
      in_ = In::kQuoted;
      return kGemmaQuote.size();
    }
    read_open(text.front(), json);
    return 1;
  }

  size_t read_quoted(std::string_view text, std::string& json) {
    const size_t end = text.find(kGemmaQuote);
    if (end == 0) {
      json += '"';
      in_ = In::kOpen;
      return kGemmaQuote.size();
    }
    const size_t given = end == std::string_view::npos ? text.size() - unfinished_mark(text, kGemmaQuote) : end;
    json += json_escaped(text.substr(0, given));
    return given;
  }

  size_t read_string(char c, std::string& json) {
    json += c;
    if (!std::exchange(escaped_, false)) {
      escaped_ = c == '\\';
      if (c == '"') in_ = In::kOpen;
    }
    return 1;
  }

  void read_open(char c, std::string& json) {
    if (kSpace.find(c) != std::string_view::npos && bare_.empty()) return;
    if (c == '"' && bare_.empty()) {
      json += c;
      in_ = In::kString;
      return;
    }
    if (std::string_view("{}[]:,").find(c) == std::string_view::npos) {
      bare_ += c;
      return;
    }
    end_bare(c, json);
    json += c;
    if (c == '{' || c == '[') open_ += c;
    if ((c == '}' || c == ']') && !open_.empty()) open_.pop_back();
    done_ = open_.empty();
  }

  // A word without quotes: a key before a colon, else a number, true, false or null; what is none of these is a
  // string.
  void end_bare(char before, std::string& json) {
    if (bare_.empty()) return;
    bare_.erase(bare_.find_last_not_of(kSpace) + 1);
    const auto read = read_bounded_json(bare_, {});
    const bool literal = before != ':' && std::holds_alternative<Json>(read);
    json += literal ? bare_ : "\"" + json_escaped(bare_) + "\"";
    bare_.clear();
  }

  In in_ = In::kOpen;
  bool escaped_ = false;
  bool done_ = false;
  std::string open_;  // braces and brackets
  std::string bare_;
};

class GemmaCalls : public SteppedCallParser {
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
    const size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return more(text.size());
    const Meets end = meets(text.substr(first), kGemmaCallEnd);
    if (end == Meets::kPart) return more(first);
    return ended(first + (end == Meets::kWhole ? kGemmaCallEnd.size() : 0));
  }

  Step read_head(std::string_view text, CallSink& calls) {
    static constexpr std::string_view kCall = "call:";
    if (text.size() >= kLongestHead) return not_a_call();
    const size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return more();
    const Meets begins = meets(text.substr(first), kCall);
    if (begins != Meets::kWhole) return begins == Meets::kPart ? more() : not_a_call();
    const size_t name = std::min(text.find_first_not_of(kSpace, first + kCall.size()), text.size());
    const size_t end = end_of_name(text, name);
    const size_t brace = text.find_first_not_of(kSpace, end);
    if (brace == std::string_view::npos) return more();
    if (text[brace] != '{' || !calls.begin(std::string(text.substr(name, end - name)))) return not_a_call();
    state_ = State::kArguments;
    return again(brace);
  }

  Step read_arguments(std::string_view text, CallSink& calls) {
    std::string json;
    const size_t taken = arguments_.take(text, json);
    calls.arguments(json);
    if (!arguments_.done()) return more(taken);
    calls.end();
    state_ = State::kAfter;
    return again(taken);
  }

  State state_ = State::kHead;
  GemmaArguments arguments_;
};

}  // namespace

std::unique_ptr<CallParser> gemma_calls() { return std::make_unique<GemmaCalls>(); }

}  // namespace kvasir
