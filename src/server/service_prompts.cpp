// From what was asked to tokens: templates, texts, and what is too much of them.
#include <fmt/format.h>

#include <algorithm>

#include "server/api/api_error.h"
#include "server/service.h"

namespace kvasir {
namespace {

// A second or two at most; a chat of ten thousand messages needs a tenth of it.
RenderLimits render_limits() {
  RenderLimits limits;
  limits.steps = 3'000'000;
  limits.bytes = std::int64_t{256} << 20;
  return limits;
}

// Stands at the end of a message that goes on, and nowhere else.
constexpr std::string_view kGoesOn = "\uE5F4\uE5F5";

// The prompt ends where the mark stood.
void cut_behind_mark(std::vector<Piece>& pieces) {
  const std::string text = text_of(pieces);
  size_t left = text.rfind(kGoesOn);
  if (left == std::string::npos)
    bad_param("messages", "the last message cannot go on: the chat template leaves it out, or changes it");
  size_t kept = 0;
  for (; kept < pieces.size() && left > 0; ++kept) {
    if (pieces[kept].text.size() > left) pieces[kept].text.resize(left);
    left -= pieces[kept].text.size();
  }
  pieces.resize(kept);
}

}  // namespace

// A text longer than the longest token for each place of the context cannot fit, so it need not be tokenized.
void Service::check_text(size_t bytes, const std::string& param, size_t slack) const {
  const size_t most = static_cast<size_t>(model_.engine.config().context) * longest_token_;
  if (bytes <= most * slack) return;
  throw ApiError({.param = param, .code = "context_length_exceeded"},
                 fmt::format("the text has {} bytes, and at most {} can fit the context of {} tokens; shorten it",
                             bytes, most, model_.engine.config().context));
}

void Service::check_tokens(size_t count, const std::string& param) const {
  const size_t most = std::max(static_cast<size_t>(model_.engine.config().context), kMostListed);
  if (count <= most) return;
  bad_param(param, fmt::format("{} tokens are too many at once; send at most {}", count, most));
}

Service::RenderedChat Service::render_chat(const ChatRequest& chat) const {
  check_generates();
  if (!model_.chat) {
    throw ApiError({.param = "messages", .code = "no_chat_template"},
                   "the model has no chat template; use /v1/completions, or a model that was tuned for chat");
  }
  // A template may leave texts out, but hardly half of what is too much; so it need not run.
  size_t bytes = 0;
  for (const OrderedJson& message : chat.messages) bytes += message["content"].get_ref<const std::string&>().size();
  check_text(bytes, "messages", 2);
  const bool goes_on = chat.turn == ChatRequest::Turn::kContinues;
  OrderedJson messages = chat.messages;
  if (goes_on) messages.back()["content"].get_ref<std::string&>() += kGoesOn;
  if (tool_dialect_.told != ToolDialect::Told::kByTemplate)
    messages = messages_with_tools(messages, chat.options.toolbox);
  messages = messages_with_system(messages, system_turns_);
  RenderedChat out;
  out.pieces = model_.chat->render(messages_with_reasoning(std::move(messages), reasoning_), render_options(chat));
  if (goes_on) {
    cut_behind_mark(out.pieces);
  } else {
    open_answer(chat.options, out);
  }
  return out;
}

RenderOptions Service::render_options(const ChatRequest& chat) const {
  RenderOptions options;
  options.bos_token = model_.tokenizer.bos_token().value_or("");
  options.eos_token = model_.tokenizer.eos_token().value_or("");
  options.variables = chat.variables;
  options.limits = render_limits();
  if (chat.turn != ChatRequest::Turn::kNew) options.generation_prompt = GenerationPrompt::kNone;
  if (tool_dialect_.told == ToolDialect::Told::kByTemplate) options.tools = template_tools(chat.options.toolbox);
  return options;
}

// Where the answer begins: within thoughts that the template has opened, before them, or at once with what it is held
// to. A call that must come begins as the model was taught to begin one.
void Service::open_answer(const AnswerOptions& options, RenderedChat& chat) const {
  const bool call = options.toolbox.must == Toolbox::Must::kCall;
  const bool held = call || options.format.kind != ResponseFormat::Kind::kText;
  const ReasoningFormat* format = reasoning_.format;
  const PromptEnd end = format == nullptr ? PromptEnd::kCloses : end_of_prompt(chat.pieces, *format);
  const bool channels = format != nullptr && format->kind == ReasoningFormat::Kind::kChannels;
  if (end == PromptEnd::kOpens) chat.begins = AnswerBegins::kInside;
  if (!held) {
    if (format != nullptr) chat.thoughts = Thoughts::kFree;
    return;
  }
  if (channels) {  // the message is opened here, and thoughts would need one of their own before it
    chat.thoughts = Thoughts::kFree;
    chat.begins = AnswerBegins::kInside;
  } else if (reasoning_.close && end == PromptEnd::kOpens) {
    chat.thoughts = Thoughts::kBefore;
    return;
  } else if (reasoning_.close && reasoning_.open && end == PromptEnd::kSaysNothing && !call) {
    chat.thoughts = Thoughts::kMayBefore;
    return;
  } else if (end == PromptEnd::kOpens) {  // nobody could tell where they end: there are none
    chat.pieces.push_back({"\n" + std::string(format->close) + "\n\n", Origin::kTemplate});
    chat.begins = AnswerBegins::kBefore;
  }
  const std::string_view opening = call ? tool_dialect_.format->opening : channels ? format->opening : "";
  if (!opening.empty()) chat.pieces.push_back({std::string(opening), Origin::kTemplate});
}

Service::Tokens Service::chat_tokens(const ChatRequest& chat) const { return chat_tokens(render(chat)); }

Service::Tokens Service::chat_tokens(std::span<const Piece> pieces) const {
  size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.text.size();
  check_text(bytes, "messages");
  return encode_chat(model_.tokenizer, pieces);
}

Service::AnswerJob Service::chat_job(const HttpRequest& request, ChatRequest chat, const ChatSource& source) const {
  AnswerJob job;
  chat.options.explain |= request.explain;
  const RenderedChat rendered = render_chat(chat);
  const std::vector<Piece>& pieces = rendered.pieces;
  Tokens tokens = chat_tokens(pieces);
  if (chat.options.explain || !source.breakpoints.empty()) {
    using Messages = MapRequest::Messages;
    const MapRequest asked{source.body, source.breakpoints, chat.options.explain ? Messages::kFind : Messages::kSkip};
    job.map = map_prompt(model_.tokenizer, asked, {pieces, tokens},
                         [&](const Json& body) { return render(source.read(body)); });
  }
  plan_next_turn(chat, {pieces, tokens}, job.map);
  const std::vector<std::string>& skipped = chat.options.toolbox.skipped;
  if (!skipped.empty() && on_note_) {
    std::string what = "skipped tools that are not functions:";
    for (const std::string& one : skipped) what += " " + one;
    on_note_(request.id, what);
  }
  job.thoughts = rendered.thoughts;
  job.begins = rendered.begins;
  job.print = print_of(chat, tokens);
  job.prompts.push_back(std::move(tokens));
  job.options = std::move(chat.options);
  return job;
}

// Only of prompts of the caller's own: of another's, and of one long gone, nothing is told.
std::optional<CacheDiagnosis> Service::diagnose(const AnswerJob& job, const Caller& caller) const {
  const std::optional<std::string>& earlier = job.options.compare_with;
  if (!earlier || !job.print) return std::nullopt;
  if (earlier->empty()) return CacheDiagnosis{};
  const auto print = prints_.find(caller.id, *earlier);
  if (!print) return CacheDiagnosis{CacheDiagnosis::Kind::kNotFound};
  return CacheDiagnosis{CacheDiagnosis::Kind::kCompared, compare(*print, *job.print)};
}

// A template may leave out of the next prompt what is thought in this answer. The two agree up to the place where the
// thoughts would begin: so much is kept for a while, however full the cache is.
void Service::plan_next_turn(const ChatRequest& chat, const RenderedPrompt& rendered, PromptMap& map) const {
  constexpr std::chrono::seconds kTurn{300};
  if (reasoning_.format == nullptr || chat.turn != ChatRequest::Turn::kNew) return;
  const auto text_of_turn = [&](const OrderedJson& messages) -> std::optional<std::string> {
    ChatRequest next = chat;
    next.messages = messages;
    try {
      return text_of(render(next));
    } catch (const Error&) {  // a template that does not take such a turn
      return std::nullopt;
    }
  };
  const std::string prompt = text_of(rendered.pieces);
  const std::optional<size_t> kept = kept_by_next_turn(chat.messages, prompt, text_of_turn);
  if (!kept) return;
  const TokenOffsets offsets(model_.tokenizer, rendered.pieces, rendered.tokens);
  add_breakpoint(map.breakpoints, {offsets.tokens_within(*kept), kTurn});
}

Service::Tokens Service::prompt_tokens(const Prompt& prompt) const {
  check_generates();
  if (const auto* tokens = std::get_if<Tokens>(&prompt)) return *tokens;
  const auto& text = std::get<std::string>(prompt);
  check_text(text.size(), "prompt");
  return model_.tokenizer.encode_document(text, Tokenizer::Specials::kParse);
}

}  // namespace kvasir
