#include "server/answer/tool_call_reader.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "server/api/api_error.h"
#include "server/api/json_fields.h"
#include "server/random_id.h"

namespace kvasir {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr size_t kLongestHead = 4096;  // what is held back is read again with every piece
constexpr size_t kLongestGap = 256;    // so is this
constexpr std::string_view kBetween = " \t\r\n,;[]";

std::string_view closing_mark(ToolFormat format) { return format == ToolFormat::kHermes ? "</tool_call>" : ""; }

// The longest end of `text` that is white space, not without end, and then the beginning of `mark`.
size_t unfinished(std::string_view text, std::string_view mark) {
  size_t most = std::min(mark.size(), text.size());
  while (most > 0 && text.substr(text.size() - most) != mark.substr(0, most)) --most;
  const size_t space = text.substr(0, text.size() - most).find_last_not_of(kSpace);
  const size_t held = text.size() - (space == std::string_view::npos ? 0 : space + 1);
  return held < kLongestGap ? held : most;
}

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

// name[ARGS]{, or name[CALL_ID]id[ARGS]{, as Mistral's newer models write.
HeadParser::Result parse_named(std::string_view text, Head& out) {
  static constexpr std::string_view kId = "[CALL_ID]";
  static constexpr std::string_view kArguments = "[ARGS]";
  const auto word = [&](size_t from) {
    const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; };
    while (from < text.size() && fits(static_cast<unsigned char>(text[from]))) ++from;
    return from;
  };
  size_t at = word(0);
  out.name = text.substr(0, at);
  if (text.substr(at).starts_with(kId)) at = word(at + kId.size());
  const std::string_view rest = text.substr(at);
  if (!rest.starts_with(kArguments)) {
    const bool may_come = kArguments.starts_with(rest) || kId.starts_with(rest);
    return may_come && at > 0 ? HeadParser::Result::kMore : HeadParser::Result::kOther;
  }
  out.arguments = text.find_first_not_of(kSpace, at + kArguments.size());
  if (out.arguments == std::string_view::npos) return HeadParser::Result::kMore;
  return text[out.arguments] == '{' ? HeadParser::Result::kHead : HeadParser::Result::kOther;
}

// A complete object: {name, arguments as text}. Read with bounds, since a model can be talked into any nesting.
std::optional<std::pair<std::string, std::string>> read_call(const std::string& text) {
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

}  // namespace

std::string_view opening_mark(ToolFormat format) {
  switch (format) {
    case ToolFormat::kHermes:
      return "<tool_call>";
    case ToolFormat::kMistral:
      return "[TOOL_CALLS]";
    case ToolFormat::kLlama:
    case ToolFormat::kJson:
      break;
  }
  return "";
}

ToolCallReader::ToolCallReader(ToolReading reading) : reading_(std::move(reading)) {}

std::vector<AnswerPart> ToolCallReader::push(std::string_view text) {
  held_ += text;
  while (!held_.empty() && step() == Step::kAgain) {
  }
  return std::exchange(out_, {});
}

std::vector<AnswerPart> ToolCallReader::finish() {
  const bool begun = state_ == State::kBefore && held_.find_first_not_of(kBetween) != std::string::npos;
  const bool unfinished_call = begun || state_ == State::kHead || state_ == State::kWhole;
  if (unfinished_call) no_call();
  if (state_ == State::kText || state_ == State::kPlain) give_text(std::exchange(held_, {}));
  return std::exchange(out_, {});
}

ToolCallReader::Step ToolCallReader::step() {
  switch (state_) {
    case State::kText:
      return read_text();
    case State::kBefore:
      return read_before();
    case State::kHead:
      return read_head();
    case State::kWhole:
      return read_whole();
    case State::kArguments:
    case State::kRest:
      return read_inside();
    case State::kAfter:
      return read_after();
    case State::kPlain:
      give_text(std::exchange(held_, {}));
      return Step::kWait;
    case State::kDone:
      held_.clear();
      return Step::kWait;
  }
  return Step::kWait;
}

ToolCallReader::Step ToolCallReader::read_text() {
  if (just_called_) held_.erase(0, std::min(held_.find_first_not_of(kSpace), held_.size()));
  if (held_.empty()) return Step::kWait;
  const std::string_view mark = opening_mark(reading_.format);
  if (mark.empty()) {  // the answer is a call from its first character on, or none
    static constexpr std::string_view kTag = "<|python_tag|>";
    const size_t first = held_.find_first_not_of(kSpace);
    if (first == std::string::npos && held_.size() < kLongestGap) return Step::kWait;
    if (first == std::string::npos) {
      state_ = State::kPlain;
      return Step::kAgain;
    }
    const std::string_view rest = std::string_view(held_).substr(first);
    if (rest.size() < kTag.size() && kTag.starts_with(rest)) return Step::kWait;
    const bool tagged = rest.starts_with(kTag);
    const bool list = reading_.format == ToolFormat::kJson && rest.front() == '[';
    if (!tagged && !list && rest.front() != '{') {
      state_ = State::kPlain;
      return Step::kAgain;
    }
    if (tagged) held_.erase(first, kTag.size());
    state_ = State::kBefore;
    return Step::kAgain;
  }
  const size_t at = held_.find(mark);
  if (at == std::string::npos) {
    const size_t certain = held_.size() - unfinished(held_, mark);
    give_text(held_.substr(0, certain));
    held_.erase(0, certain);
    return Step::kWait;
  }
  const size_t end = held_.substr(0, at).find_last_not_of(kSpace);
  give_text(held_.substr(0, end == std::string::npos ? 0 : end + 1));
  held_.erase(0, at + mark.size());
  opening_ = mark;
  state_ = State::kBefore;
  return Step::kAgain;
}

ToolCallReader::Step ToolCallReader::read_before() {
  const size_t brace = held_.find_first_not_of(kBetween);
  if (brace == std::string::npos && held_.size() < kLongestGap) return Step::kWait;
  if (brace == std::string::npos || held_[brace] != '{') {
    if (brace != std::string::npos && reading_.format == ToolFormat::kMistral) return read_named(brace);
    no_call();
    return Step::kAgain;
  }
  opening_ += held_.substr(0, brace);
  held_.erase(0, brace);
  enter(State::kHead);
  return Step::kAgain;
}

ToolCallReader::Step ToolCallReader::read_named(size_t at) {
  Head head;
  const auto result = parse_named(std::string_view(held_).substr(at), head);
  if (result == HeadParser::Result::kMore && held_.size() < kLongestHead) return Step::kWait;
  if (result != HeadParser::Result::kHead || !knows(head.name)) {
    no_call();
    return Step::kAgain;
  }
  begin_call(head.name);
  held_.erase(0, at + head.arguments);
  enter(State::kArguments);
  bare_ = true;
  return Step::kAgain;
}

ToolCallReader::Step ToolCallReader::read_head() {
  Head head;
  switch (HeadParser(held_).parse(head)) {
    case HeadParser::Result::kMore:
      if (held_.size() < kLongestHead) return Step::kWait;
      [[fallthrough]];
    case HeadParser::Result::kOther:
      enter(State::kWhole);
      return Step::kAgain;
    case HeadParser::Result::kHead:
      break;
  }
  if (!knows(head.name)) {
    enter(State::kWhole);
    return Step::kAgain;
  }
  begin_call(head.name);
  held_.erase(0, head.arguments);
  enter(State::kArguments);
  return Step::kAgain;
}

ToolCallReader::Step ToolCallReader::read_whole() {
  const size_t end = scan();
  if (end == 0) return Step::kWait;
  const auto call = read_call(held_.substr(0, end));
  if (!call || !knows(call->first)) {
    no_call();
    return Step::kAgain;
  }
  begin_call(call->first);
  give_arguments(call->second);
  held_.erase(0, end);
  end_call();
  return Step::kAgain;
}

ToolCallReader::Step ToolCallReader::read_inside() {
  const size_t end = scan();
  const size_t taken = end == 0 ? held_.size() : end;
  if (state_ == State::kArguments) give_arguments(held_.substr(0, taken));
  held_.erase(0, taken);
  scanned_ = 0;
  if (end == 0) return Step::kWait;
  if (state_ == State::kRest || bare_) {
    end_call();
    return Step::kAgain;
  }
  enter(State::kRest);
  depth_ = 1;  // still within the call's own braces
  return Step::kAgain;
}

ToolCallReader::Step ToolCallReader::read_after() {
  const size_t next = held_.find_first_not_of(kBetween);
  if (next == std::string::npos) {
    held_.clear();  // nobody hears of what is between calls
    return Step::kWait;
  }
  const std::string_view rest = std::string_view(held_).substr(next);
  const std::string_view close = closing_mark(reading_.format);
  if (!close.empty()) {
    if (rest.size() < close.size() && close.starts_with(rest)) return Step::kWait;
    held_.erase(0, rest.starts_with(close) ? next + close.size() : next);
    state_ = State::kText;
    return Step::kAgain;
  }
  const bool another = rest.front() == '{';
  held_.erase(0, next);
  if (another) {
    enter(State::kHead);
  } else {
    state_ = opening_mark(reading_.format).empty() ? State::kPlain : State::kText;
  }
  return Step::kAgain;
}

// Where the object ends that held_ begins with, or goes on: 0 while it has not.
size_t ToolCallReader::scan() {
  for (; scanned_ < held_.size(); ++scanned_) {
    const char c = held_[scanned_];
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{') {
      ++depth_;
    } else if (c == '}' && --depth_ <= 0) {
      return scanned_ + 1;
    }
  }
  return 0;
}

void ToolCallReader::give_text(std::string text) {
  if (text.empty()) return;
  just_called_ = false;
  if (!out_.empty() && std::holds_alternative<std::string>(out_.back())) {
    std::get<std::string>(out_.back()) += text;
  } else {
    out_.emplace_back(std::move(text));
  }
}

void ToolCallReader::give_arguments(std::string json) {
  if (json.empty()) return;
  if (!out_.empty() && std::holds_alternative<ToolArguments>(out_.back())) {
    std::get<ToolArguments>(out_.back()).json += json;
  } else {
    out_.emplace_back(ToolArguments{std::move(json)});
  }
}

void ToolCallReader::begin_call(const std::string& name) {
  opening_.clear();
  std::string id = reading_.id_prefix + random_hex(96).substr(0, reading_.id_digits);
  out_.emplace_back(ToolCallHead{calls_++, std::move(id), name});
}

void ToolCallReader::end_call() {
  just_called_ = true;
  // Behind bare arguments comes another mark or text; within a list, another object.
  const State next = std::exchange(bare_, false) ? State::kText : State::kAfter;
  enter(reading_.parallel ? next : State::kDone);
}

// What was taken for a call goes out as it came.
void ToolCallReader::no_call() {
  give_text(std::exchange(opening_, {}));
  state_ = opening_mark(reading_.format).empty() ? State::kPlain : State::kText;
}

void ToolCallReader::enter(State state) {
  state_ = state;
  scanned_ = 0;
  depth_ = 0;
  in_string_ = false;
  escaped_ = false;
}

bool ToolCallReader::knows(const std::string& name) const {
  return std::ranges::find(reading_.names, name) != reading_.names.end();
}

}  // namespace kvasir
