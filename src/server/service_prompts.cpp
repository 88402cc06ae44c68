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

std::vector<Piece> Service::render(const ChatRequest& chat) const {
  if (!model_.chat) {
    throw ApiError({.param = "messages", .code = "no_chat_template"},
                   "the model has no chat template; use /v1/completions, or a model that was tuned for chat");
  }
  // A template may leave texts out, but hardly half of what is too much; so it need not run.
  size_t bytes = 0;
  for (const OrderedJson& message : chat.messages) bytes += message["content"].get_ref<const std::string&>().size();
  check_text(bytes, "messages", 2);
  RenderOptions options;
  options.bos_token = model_.tokenizer.bos_token().value_or("");
  options.eos_token = model_.tokenizer.eos_token().value_or("");
  options.variables = chat.variables;
  options.limits = render_limits();
  const Toolbox& toolbox = chat.options.toolbox;
  const bool told = tool_dialect_.told == ToolDialect::Told::kByTemplate;
  if (told) options.tools = template_tools(toolbox);
  std::vector<Piece> pieces =
      model_.chat->render(told ? chat.messages : messages_with_tools(chat.messages, toolbox), options);
  // A call that must come begins as the model was taught to begin one.
  if (toolbox.must == Toolbox::Must::kCall && tool_dialect_.format == ToolFormat::kHermes)
    pieces.push_back({std::string(opening_mark(ToolFormat::kHermes)) + "\n", Origin::kTemplate});
  return pieces;
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
  const std::vector<Piece> pieces = render(chat);
  Tokens tokens = chat_tokens(pieces);
  if (chat.options.explain || !source.breakpoints.empty()) {
    using Messages = MapRequest::Messages;
    const MapRequest asked{source.body, source.breakpoints, chat.options.explain ? Messages::kFind : Messages::kSkip};
    job.map = map_prompt(model_.tokenizer, asked, {pieces, tokens},
                         [&](const Json& body) { return render(source.read(body)); });
  }
  job.prompts.push_back(std::move(tokens));
  job.options = std::move(chat.options);
  return job;
}

Service::Tokens Service::prompt_tokens(const Prompt& prompt) const {
  if (const auto* tokens = std::get_if<Tokens>(&prompt)) return *tokens;
  const auto& text = std::get<std::string>(prompt);
  check_text(text.size(), "prompt");
  return model_.tokenizer.encode_document(text, Tokenizer::Specials::kParse);
}

}  // namespace kvasir
