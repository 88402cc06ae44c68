// What an answer consists of, as its text is read: text, what the model thought before it, and calls of tools.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvasir {

struct ReasoningText {
  std::string text;  // some more of it
};

struct ToolCallHead {
  size_t index = 0;  // among the calls of the answer
  std::string id;
  std::string name;
};

struct ToolArguments {
  std::string json;  // some more of the newest call's
};

using AnswerPart = std::variant<std::string, ReasoningText, ToolCallHead, ToolArguments>;

// Reads the text of an answer as it comes. Whatever the pieces, the parts put together are the same.
class PartReader {
 public:
  virtual ~PartReader() = default;

  // What is certain now. Neighbouring texts are one.
  virtual std::vector<AnswerPart> push(std::string_view text) = 0;
  virtual std::vector<AnswerPart> finish() = 0;  // the text ended here

  virtual bool in_reasoning() const { return false; }  // as far as it was read
};

// Parts on their way out; neighbours of a kind are put together.
class PartList {
 public:
  void text(std::string_view text) {
    add<std::string>(text, [](std::string& part) -> std::string& { return part; });
  }
  void reasoning(std::string_view text) {
    add<ReasoningText>(text, [](ReasoningText& part) -> std::string& { return part.text; });
  }
  void arguments(std::string_view json) {
    add<ToolArguments>(json, [](ToolArguments& part) -> std::string& { return part.json; });
  }
  void call(ToolCallHead head) { parts_.emplace_back(std::move(head)); }
  void part(const AnswerPart& one) {
    if (const auto* plain = std::get_if<std::string>(&one)) return text(*plain);
    if (const auto* thought = std::get_if<ReasoningText>(&one)) return reasoning(thought->text);
    if (const auto* more = std::get_if<ToolArguments>(&one)) return arguments(more->json);
    parts_.push_back(one);
  }

  std::vector<AnswerPart> take() { return std::exchange(parts_, {}); }

 private:
  template <class Part, class TextOf>
  void add(std::string_view text, TextOf text_of) {
    if (text.empty()) return;
    if (parts_.empty() || !std::holds_alternative<Part>(parts_.back())) parts_.emplace_back(Part{});
    text_of(std::get<Part>(parts_.back())).append(text);
  }

  std::vector<AnswerPart> parts_;
};

}  // namespace kvasir
