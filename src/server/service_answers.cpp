// The routes that generate.
#include <fmt/format.h>

#include "server/anthropic_parse.h"
#include "server/api_error.h"
#include "server/ollama_parse.h"
#include "server/openai_parse.h"
#include "server/service.h"
#include "server/sse.h"
#include "text/detokenizer.h"

namespace kvasir {
namespace {

constexpr size_t kMostEchoed = size_t{32} << 20;

}  // namespace

Response Service::openai_chat(const HttpRequest& request) {
  const Json body = parse_json(request.body);
  ChatRequest chat = parse_openai_chat(body);
  chat.options.explain |= request.explain;
  AnswerHead about = head("chatcmpl-", chat.options);
  Beginning beginning;
  put_chat(beginning, chat, {body, openai_cache_marks(body, "messages"), parse_openai_chat});
  beginning.answer_id = about.id;
  beginning.stream_type = kSseType;
  beginning.heartbeat = kSsePing;
  const auto writer = chat.options.stream ? openai_stream : openai_whole;
  beginning.writer = writer(OpenAiKind::kChat, std::move(about));
  beginning.options = std::move(chat.options);
  return begin(request, std::move(beginning));
}

Response Service::openai_completion(const HttpRequest& request) {
  CompletionRequest completion = parse_openai_completion(parse_json(request.body));
  completion.options.explain |= request.explain;
  AnswerHead about = head("cmpl-", completion.options);
  about.choices *= completion.prompts.size();
  Beginning beginning;
  size_t echoed = 0;  // bytes, over all answers
  for (const Prompt& prompt : completion.prompts) {
    beginning.prompts.push_back(prompt_tokens(prompt));
    if (!completion.echo) continue;
    const auto* text = std::get_if<std::string>(&prompt);
    const std::string echo =
        text != nullptr ? *text
                        : detokenize(model_.tokenizer, beginning.prompts.back(), Tokenizer::SkipSpecials::kSkip);
    echoed += echo.size() * static_cast<size_t>(completion.options.n);
    if (echoed > kMostEchoed) {
      bad_param("echo",
                fmt::format("the prompts are more than {} bytes when each answer repeats its own", kMostEchoed));
    }
    about.echo.insert(about.echo.end(), static_cast<size_t>(completion.options.n), echo);
  }
  beginning.answer_id = about.id;
  beginning.stream_type = kSseType;
  beginning.heartbeat = kSsePing;
  const auto writer = completion.options.stream ? openai_stream : openai_whole;
  beginning.writer = writer(OpenAiKind::kText, std::move(about));
  beginning.options = std::move(completion.options);
  return begin(request, std::move(beginning));
}

Response Service::anthropic_messages(const HttpRequest& request) {
  const Json body = parse_json(request.body);
  ChatRequest chat = parse_anthropic_messages(body);
  chat.options.explain |= request.explain;
  AnswerHead about = head("msg_", chat.options);
  Beginning beginning;
  put_chat(beginning, chat, {body, anthropic_cache_marks(body), parse_anthropic_messages});
  beginning.answer_id = about.id;
  beginning.stream_type = kSseType;
  beginning.heartbeat = sse_event("ping", R"({"type":"ping"})");
  const auto writer = chat.options.stream ? anthropic_stream : anthropic_whole;
  beginning.writer = writer(std::move(about));
  beginning.options = std::move(chat.options);
  return begin(request, std::move(beginning));
}

Response Service::anthropic_count(const HttpRequest& request) {
  const ChatRequest chat = parse_anthropic_count(parse_json(request.body));
  return json_response({{"input_tokens", chat_tokens(chat).size()}});
}

Response Service::ollama_chat(const HttpRequest& request) {
  return ollama_answer(request, OllamaKind::kChat, parse_ollama_chat);
}

Response Service::ollama_generate(const HttpRequest& request) {
  return ollama_answer(request, OllamaKind::kGenerate, parse_ollama_generate);
}

Response Service::ollama_answer(const HttpRequest& request, OllamaKind kind, const ReadOllama& read) {
  const Json body = parse_json(request.body);
  auto asked = read(body);
  Beginning beginning;
  if (auto* chat = std::get_if<ChatRequest>(&asked)) {
    chat->options.explain |= request.explain;
    put_chat(beginning, *chat, {body, {}, [&](const Json& marked) { return std::get<ChatRequest>(read(marked)); }});
    beginning.options = std::move(chat->options);
  } else {
    auto& completion = std::get<CompletionRequest>(asked);
    beginning.prompts.push_back(prompt_tokens(completion.prompts.front()));
    beginning.options = std::move(completion.options);
    beginning.options.explain |= request.explain;
  }
  AnswerHead about = head("ollama-", beginning.options);
  beginning.answer_id = about.id;
  beginning.stream_type = "application/x-ndjson";
  const auto writer = beginning.options.stream ? ollama_stream : ollama_whole;
  beginning.writer = writer(kind, std::move(about));
  return begin(request, std::move(beginning));
}

}  // namespace kvasir
