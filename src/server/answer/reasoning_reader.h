// What a model thought, parted from what it answered, as the text comes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/answer/answer_part.h"
#include "server/answer/formats/reasoning_formats.h"

namespace kvasir {

// Where an answer begins: some templates write the opening mark themselves.
enum class AnswerBegins { kBefore, kInside };

// Between marks. The newlines that stand around the thoughts are no part of them, nor is the white space behind.
class ReasoningReader : public PartReader {
 public:
  ReasoningReader(const ReasoningFormat& format, AnswerBegins begins)
      : format_(format), state_(begins == AnswerBegins::kInside ? State::kFirst : State::kStart) {}

  std::vector<AnswerPart> push(std::string_view text) override;
  std::vector<AnswerPart> finish() override;
  bool in_reasoning() const override { return state_ == State::kFirst || state_ == State::kInside; }

 private:
  enum class State {
    kStart,   // of the answer: the opening mark, or text
    kFirst,   // behind the opening mark
    kInside,  // thoughts
    kAfter,   // behind the closing mark
    kText,
  };
  enum class Step { kAgain, kWait };

  Step step();
  Step read_start();
  Step read_inside();
  Step read_after();
  Step read_text();
  void skip(std::string_view letters);

  const ReasoningFormat& format_;
  State state_;
  std::string held_;
  PartList out_;
};

}  // namespace kvasir
