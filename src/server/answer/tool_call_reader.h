// Calls of tools in the text of an answer, read as it comes.
//
// Each kind of model was taught its own way of writing calls. What begins like a call but is none, such as the JSON
// somebody asked for or a call of what is not there, is text like any other. Arguments are given out as they come,
// byte for byte; they are JSON where the model was held to a schema, and may be anything where it was not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kvasir {

enum class ToolFormat {
  kHermes,  // <tool_call>{"name": …, "arguments": {…}}</tool_call>, among text
  kLlama,   // {"name": …, "parameters": {…}} as the whole answer, perhaps after <|python_tag|>; more after ";"
  kMistral,  // [TOOL_CALLS][{"name": …, "arguments": {…}}, …], after text; newer: [TOOL_CALLS]name[ARGS]{…}, repeated
  kJson,  // {"name": …, "arguments": {…}}, or a list of them: what an answer that must be a call is held to
};

std::string_view opening_mark(ToolFormat format);  // empty: the answer begins with the call

struct ToolCallHead {
  size_t index = 0;  // among the calls of the answer
  std::string id;
  std::string name;
};

struct ToolArguments {
  std::string json;  // some more of the newest call's
};

using AnswerPart = std::variant<std::string, ToolCallHead, ToolArguments>;

struct ToolReading {
  ToolFormat format = ToolFormat::kHermes;
  std::vector<std::string> names;  // that may be called
  bool parallel = true;            // otherwise what follows the first call is left out
  std::string id_prefix;           // of the calls' ids
  size_t id_digits = 24;           // behind it
};

class ToolCallReader {
 public:
  explicit ToolCallReader(ToolReading reading);

  // What is certain now. Neighbouring texts are one.
  std::vector<AnswerPart> push(std::string_view text);
  std::vector<AnswerPart> finish();  // the text ended here

  size_t calls() const { return calls_; }

 private:
  enum class State {
    kText,       // before a call's mark
    kBefore,     // after the mark, before the brace
    kHead,       // in a call, before its arguments
    kWhole,      // in a call written in another order: read when complete
    kArguments,  // given out as they come
    kRest,       // of the call's object
    kAfter,      // behind a call
    kPlain,      // nothing but text from here on
    kDone,       // nothing from here on
  };
  enum class Step { kAgain, kWait };

  Step step();
  Step read_text();
  Step read_before();
  Step read_named(size_t at);
  Step read_head();
  Step read_whole();
  Step read_inside();
  Step read_after();
  size_t scan();
  void give_text(std::string text);
  void give_arguments(std::string json);
  void begin_call(const std::string& name);
  void no_call();
  void enter(State state);
  void end_call();
  bool knows(const std::string& name) const;

  ToolReading reading_;
  State state_ = State::kText;
  std::string held_;     // not yet given out or passed over
  std::string opening_;  // what stood before a brace: given back when it is no call
  std::vector<AnswerPart> out_;
  size_t calls_ = 0;
  bool bare_ = false;         // the arguments stand in no object of their call's
  bool just_called_ = false;  // white space behind a call is not part of the text
  // Within an object, as far as held_ was scanned.
  size_t scanned_ = 0;
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace kvasir
