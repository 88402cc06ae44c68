#include "server/answer/answer_reader.h"

#include <algorithm>
#include <iterator>

namespace kvasir {

AnswerReader::AnswerReader(const AnswerReading& reading) {
  const bool channels = reading.reasoning != nullptr && reading.reasoning->kind == ReasoningFormat::Kind::kChannels;
  const bool by_channel = channels && reading.tools && !reading.tools->forced;
  if (channels) {
    const bool inside = reading.begins == AnswerBegins::kInside;
    first_ =
        std::make_unique<ChannelReader>(by_channel ? reading.tools : std::nullopt,
                                        inside ? ChannelReader::Begins::kInText : ChannelReader::Begins::kInHead);
  } else if (reading.reasoning != nullptr) {
    first_ = std::make_unique<ReasoningReader>(*reading.reasoning, reading.begins);
  }
  if (reading.tools && !by_channel) last_ = std::make_unique<ToolCallReader>(*reading.tools);
}

std::vector<AnswerPart> AnswerReader::push(std::string_view text) {
  return read_on(first_ ? first_->push(text) : std::vector<AnswerPart>{std::string(text)});
}

std::vector<AnswerPart> AnswerReader::finish() {
  std::vector<AnswerPart> out = read_on(first_ ? first_->finish() : std::vector<AnswerPart>{});
  if (last_) std::ranges::move(last_->finish(), std::back_inserter(out));  // an unfinished call began before
  return out;
}

// Text goes on to the reader of calls.
std::vector<AnswerPart> AnswerReader::read_on(std::vector<AnswerPart> parts) {
  PartList out;
  for (const AnswerPart& part : parts) {
    const auto* text = std::get_if<std::string>(&part);
    if (text != nullptr && last_) {
      for (const AnswerPart& one : last_->push(*text)) out.part(one);
    } else {
      out.part(part);
    }
  }
  std::vector<AnswerPart> taken = out.take();
  for (const AnswerPart& part : taken) calls_ += std::holds_alternative<ToolCallHead>(part) ? 1 : 0;
  return taken;
}

}  // namespace kvasir
