// The routes that generate.
#include <fmt/format.h>

#include "server/api/anthropic_parse.h"
#include "server/api/api_error.h"
#include "server/api/ollama_parse.h"
#include "server/api/openai_parse.h"
#include "server/http/sse.h"
#include "server/service.h"
#include "text/detokenizer.h"

namespace kvasir {
namespace {

constexpr size_t kMostEchoed = size_t{32} << 20;

}  // namespace

Service::WireFormat Service::openai_wire(OpenAiKind kind) {
  return {[kind](AnswerHead head) { return openai_whole(kind, std::move(head)); },
          [kind](AnswerHead head) { return openai_stream(kind, std::move(head)); }, kSseType, kSsePing};
}

Response Service::openai_chat(const HttpRequest& request) {
  const Json body = parse_json(request.body);
  ChatRequest chat = parse_openai_chat(body);  // first: breakpoints are looked for in a body that was checked
  AnswerJob job =
      chat_job(request, std::move(chat), {body, openai_cache_breakpoints(body, "messages"), parse_openai_chat});
  set_head(job, "chatcmpl-");
  return begin(request, std::move(job), openai_wire(OpenAiKind::kChat));
}

// The text before each answer to this prompt, for who asked for an echo.
std::string Service::echo_of(const Prompt& prompt, const Tokens& tokens) const {
  const auto* text = std::get_if<std::string>(&prompt);
  return text != nullptr ? *text : detokenize(model_.tokenizer, tokens, Tokenizer::SkipSpecials::kSkip);
}

Response Service::openai_completion(const HttpRequest& request) {
  CompletionRequest completion = parse_openai_completion(parse_json(request.body));
  AnswerJob job;
  job.options = std::move(completion.options);
  job.options.explain |= request.explain;
  size_t echoed = 0;  // bytes, over all answers
  for (const Prompt& prompt : completion.prompts) {
    job.prompts.push_back(prompt_tokens(prompt));
    if (!completion.echo) continue;
    const std::string echo = echo_of(prompt, job.prompts.back());
    echoed += echo.size() * static_cast<size_t>(job.options.n);
    if (echoed > kMostEchoed) {
      bad_param("echo",
                fmt::format("the prompts are more than {} bytes when each answer repeats its own", kMostEchoed));
    }
    job.head.echo.insert(job.head.echo.end(), static_cast<size_t>(job.options.n), echo);
  }
  set_head(job, "cmpl-");
  return begin(request, std::move(job), openai_wire(OpenAiKind::kText));
}

Response Service::anthropic_messages(const HttpRequest& request) {
  const Json body = parse_json(request.body);
  ChatRequest chat = parse_anthropic_messages(body);
  AnswerJob job =
      chat_job(request, std::move(chat), {body, anthropic_cache_breakpoints(body), parse_anthropic_messages});
  set_head(job, "msg_");
  const std::string ping = sse_event("ping", R"({"type":"ping"})");
  return begin(request, std::move(job), {anthropic_whole, anthropic_stream, kSseType, ping});
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
  const auto field = body.is_object() ? body.find(kind == OllamaKind::kChat ? "messages" : "prompt") : body.end();
  if (body.is_object() && (field == body.end() || field->is_null() || *field == "" || *field == Json::array()))
    return ollama_load(kind, body);
  auto asked = read(body);
  AnswerJob job;
  if (auto* chat = std::get_if<ChatRequest>(&asked)) {
    const auto read_chat = [&](const Json& marked) { return std::get<ChatRequest>(read(marked)); };
    job = chat_job(request, std::move(*chat), {body, {}, read_chat});
  } else {
    auto& completion = std::get<CompletionRequest>(asked);
    job.prompts.push_back(prompt_tokens(completion.prompts.front()));
    job.options = std::move(completion.options);
    job.options.explain |= request.explain;
  }
  set_head(job, "ollama-");
  return begin(request, std::move(job),
               {[kind](AnswerHead head) { return ollama_whole(kind, std::move(head)); },
                [kind](AnswerHead head) { return ollama_stream(kind, std::move(head)); }, "application/x-ndjson"});
}

}  // namespace kvasir
