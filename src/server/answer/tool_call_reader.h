// Calls of tools in the text of an answer, read as it comes.
//
// Each kind of model was taught its own way of writing calls: formats/ has them. What begins like a call but is none,
// such as the JSON somebody asked for or a call of what is not there, is text like any other. Arguments are given out
// as they come; they are JSON where the model was held to a schema, and may be anything where it was not.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer/answer_part.h"
#include "server/answer/formats/tool_formats.h"

namespace kvasir {

struct ReadableTool {
  std::string name;
  OrderedJson parameters{};  // a JSON Schema
};

struct ToolReading {
  const ToolFormat* format = nullptr;
  std::shared_ptr<const std::vector<ReadableTool>> tools;  // that may be called
  bool parallel = true;                                    // otherwise what follows the first call is left out
  std::string id_prefix;                                   // of the calls' ids
  size_t id_digits = 24;                                   // behind it
  bool forced = false;  // the answer must be a call: what there is of one that was cut off is no text
};

// Calls on their way out of a reader: which tools there are, and how calls are numbered and named.
class CallCollector : public CallSink {
 public:
  // REQUIRES: `out` outlives this.
  CallCollector(ToolReading reading, PartList& out) : reading_(std::move(reading)), out_(out) {}

  using CallSink::begin;
  bool begin(const std::string& name, const std::string& id) override;
  void arguments(std::string_view json) override;
  void end() override { full_ = !reading_.parallel; }
  const OrderedJson& parameters() const override { return tool_->parameters; }

  size_t calls() const { return calls_; }
  bool full() const { return full_; }  // no other is wanted
  const ToolReading& reading() const { return reading_; }

 private:
  ToolReading reading_;
  PartList& out_;
  const ReadableTool* tool_ = nullptr;  // of the newest call
  size_t calls_ = 0;
  bool full_ = false;
};

class ToolCallReader : public PartReader {
 public:
  explicit ToolCallReader(const ToolReading& reading) : calls_(reading, out_) {}
  ToolCallReader(const ToolCallReader&) = delete;
  ToolCallReader& operator=(const ToolCallReader&) = delete;

  std::vector<AnswerPart> push(std::string_view text) override;
  std::vector<AnswerPart> finish() override;

  size_t calls() const { return calls_.calls(); }

 private:
  enum class State {
    kText,   // before a mark
    kCalls,  // behind one
    kPlain,  // nothing but text from here on
    kDone,   // nothing from here on
  };
  enum class Step { kAgain, kWait };
  struct Found {
    size_t at = std::string::npos;  // npos: no mark is there
    const ToolFormat::Mark* mark = nullptr;
  };

  const ToolFormat& format() const { return *calls_.reading().format; }
  Step step();
  Step read_text();
  Step read_start();
  Step read_calls();
  Found find_mark() const;
  size_t certain_text() const;
  void open(const Found& found);
  void give_text(std::string_view text);
  void no_call();

  PartList out_;
  CallCollector calls_;
  State state_ = State::kText;
  std::string held_;     // not yet given out or passed over
  std::string opening_;  // what is given back when it was no call
  std::unique_ptr<CallParser> parser_;
  size_t calls_before_ = 0;   // the newest mark
  size_t kept_mark_ = 0;      // bytes at the beginning of held_ that are the mark itself
  bool just_called_ = false;  // white space behind a call is not part of the text
};

}  // namespace kvasir
