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
  std::shared_ptr<const TokenConstraint> form =
      formats_.constraint(call ? call_format(toolbox, *tool_dialect_.format) : job.options.format);
  const std::vector<TokenId> mark = call_mark();
  if (form != nullptr && !call && !toolbox.tools.empty() && !mark.empty()) form = call_or_form(*form, mark);
  const bool first = job.thoughts == Thoughts::kMayBefore || job.thoughts == Thoughts::kBefore;
  if (form == nullptr || !first) return form;
  const auto state =
      job.thoughts == Thoughts::kBefore ? ReasoningGate::State::kInside : ReasoningGate::State::kMayOpen;
  return after_reasoning(*form, {state, reasoning_.open, *reasoning_.close, model_.model->config().eos});
}

// The tokens that begin a call where no JSON can begin with them; empty: there are none.
std::vector<TokenId> Service::call_mark() const {
  const ToolFormat& format = *tool_dialect_.format;
  if (format.marks.empty() || format.where == ToolFormat::Where::kAtStart) return {};
  const std::string_view text = format.marks.front().text;
  std::vector<TokenId> tokens = model_.tokenizer.encode(text, Tokenizer::Specials::kParse);
  const bool special = tokens.size() == 1 && model_.tokenizer.is_special(tokens.front());
  return special || text.front() == '<' ? tokens : std::vector<TokenId>{};
}

}  // namespace kvasir
