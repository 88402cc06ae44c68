// What every way of writing calls of tools shares: the parser of one run of calls, and whom it tells.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/api/json_fields.h"

namespace kvasir {

inline constexpr std::string_view kSpace = " \t\r\n";
inline constexpr size_t kLongestHead = 4096;  // what is held back is read again with every piece
inline constexpr size_t kLongestGap = 256;    // so is this

// Hears of calls as they are read.
class CallSink {
 public:
  virtual ~CallSink() = default;

  // False: there is no such tool, and nothing began. An empty id: the model gave none.
  virtual bool begin(const std::string& name, const std::string& id) = 0;
  bool begin(const std::string& name) { return begin(name, ""); }
  // Some more JSON of the call that began last.
  virtual void arguments(std::string_view json) = 0;
  virtual void end() = 0;

  // The JSON Schema of that call's arguments.
  virtual const OrderedJson& parameters() const = 0;
};

struct CallRead {
  enum class Status {
    kMore,   // the rest cannot be understood without what follows
    kText,   // the rest is no call
    kEnded,  // the calls are over, and text follows
  };
  size_t taken = 0;  // bytes that need not be seen again
  Status status = Status::kMore;
};

// Reads the calls that stand behind one opening mark. Until a first one begins, what is taken may turn out to be
// text; whoever calls keeps it.
class CallParser {
 public:
  virtual ~CallParser() = default;

  // `text` is all that was not taken yet.
  virtual CallRead read(std::string_view text, CallSink& calls) = 0;
};

// Makes the parser of one run.
using MakeCallParser = std::unique_ptr<CallParser> (*)();

// A parser made of steps: each takes some text, and says whether there is another to be tried at once.
class SteppedCallParser : public CallParser {
 public:
  CallRead read(std::string_view text, CallSink& calls) final {
    size_t taken = 0;
    while (true) {
      const Step step = next(text.substr(taken), calls);
      taken += step.taken;
      if (step.then == Step::Then::kAgain) continue;
      const auto status = step.then == Step::Then::kMore   ? CallRead::Status::kMore
                          : step.then == Step::Then::kText ? CallRead::Status::kText
                                                           : CallRead::Status::kEnded;
      return {taken, status};
    }
  }

 protected:
  struct Step {
    enum class Then { kAgain, kMore, kText, kEnded };
    size_t taken = 0;
    Then then = Then::kAgain;
  };
  static Step again(size_t taken) { return {taken, Step::Then::kAgain}; }
  static Step more(size_t taken = 0) { return {taken, Step::Then::kMore}; }
  static Step not_a_call() { return {0, Step::Then::kText}; }
  static Step ended(size_t taken) { return {taken, Step::Then::kEnded}; }

  virtual Step next(std::string_view text, CallSink& calls) = 0;
};

// How `text` stands to a mark that it may begin with.
enum class Meets { kWhole, kPart, kNot };  // kPart: as far as the text goes
Meets meets(std::string_view text, std::string_view mark);

// The longest end of `text` that is a beginning of `mark`, and not all of it.
size_t unfinished_mark(std::string_view text, std::string_view mark);

// The letters that names of tools have: where those that `text` has from `from` on end.
size_t end_of_name(std::string_view text, size_t from = 0);

// Where the object ends that a text begins with, as the text comes.
class JsonScan {
 public:
  JsonScan() = default;
  explicit JsonScan(int depth) : depth_(depth) {}  // 1: its first brace was seen before

  // Bytes up to its end; 0: it has not come. What was seen before is not looked at again.
  size_t end_in(std::string_view text);
  // The text's first bytes are gone.
  void forget(size_t bytes) { seen_ -= bytes; }

 private:
  size_t seen_ = 0;
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

// A text as a JSON string says it, without the quotes.
std::string json_escaped(std::string_view text);

}  // namespace kvasir
