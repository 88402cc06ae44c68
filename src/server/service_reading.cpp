// How answers are held to a form, and how they are read.
#include "server/answer/call_or_form.h"
#include "server/answer/reasoning_constraint.h"
#include "server/api/api_error.h"
#include "server/service.h"

namespace kvasir {

std::optional<ToolReading> Service::tool_reading(const HttpRequest& request, const Toolbox& toolbox) const {
  if (toolbox.tools.empty()) return std::nullopt;
  ToolReading reading;
  reading.forced = toolbox.must == Toolbox::Must::kCall;
  reading.format = reading.forced ? &forced_format() : tool_dialect_.format;
  std::vector<ReadableTool> tools;
  for (const Toolbox::Tool& tool : toolbox.tools)
    tools.push_back({tool.name, tool.function.value("parameters", OrderedJson())});
  reading.tools = std::make_shared<const std::vector<ReadableTool>>(std::move(tools));
  reading.parallel = toolbox.parallel;
  if (tool_dialect_.format->id_digits > 0) {
    reading.id_digits = tool_dialect_.format->id_digits;
  } else {
    reading.id_prefix = dialect_of(request.path) == Dialect::kAnthropic ? "toolu_" : "call_";
  }
  return reading;
}

AnswerReading Service::answer_reading(const HttpRequest& request, const AnswerJob& job) const {
  AnswerReading out;
  if (job.thoughts != Thoughts::kUnread) out.reasoning = reasoning_.format;
  out.begins = job.begins;
  out.tools = tool_reading(request, job.options.toolbox);
  return out;
}

// Null: any text.
std::shared_ptr<const TokenConstraint> Service::constraint_of(const AnswerJob& job) {
  const Toolbox& toolbox = job.options.toolbox;
  const bool call = toolbox.must == Toolbox::Must::kCall;
  const bool either = !call && !toolbox.tools.empty() && job.options.format.kind != ResponseFormat::Kind::kText;
  const ToolFormat& written = *tool_dialect_.format;
  ResponseFormat format = call ? call_format(toolbox, written) : job.options.format;
  if (either && written.where == ToolFormat::Where::kAtStart) format = call_or_json(toolbox, written, format);
  std::shared_ptr<const TokenConstraint> form = formats_.constraint(format);
  if (either) {
    auto marks = call_marks();
    if (!marks->empty()) form = call_or_form(*form, std::move(marks));
  }
  const bool first = job.thoughts == Thoughts::kMayBefore || job.thoughts == Thoughts::kBefore;
  if (form == nullptr || !first) return form;
  const auto state =
      job.thoughts == Thoughts::kBefore ? ReasoningGate::State::kInside : ReasoningGate::State::kMayOpen;
  return after_reasoning(*form, {state, reasoning_.open, *reasoning_.close, model_.model->config().eos});
}

// Marks with which no JSON begins: special tokens, or what begins like a tag.
std::shared_ptr<const CallMarks> Service::call_marks() {
  std::call_once(call_marks_once_, [this] {
    const ToolFormat& format = *tool_dialect_.format;
    std::vector<std::string> texts;
    std::vector<TokenId> specials;
    for (const ToolFormat::Mark& mark : format.marks) {
      const auto id = model_.tokenizer.id_of(mark.text);
      if (id && model_.tokenizer.is_special(*id)) {
        specials.push_back(*id);
      } else if (mark.text.front() == '<') {
        texts.emplace_back(mark.text);
      }
    }
    call_marks_ = std::make_shared<const CallMarks>(formats_.vocabulary(), texts, std::move(specials));
  });
  return call_marks_;
}

}  // namespace kvasir
