// The routes that make vectors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "server/api/api_error.h"
#include "server/api/embed_parse.h"
#include "server/service.h"

namespace kvasir {
namespace {

constexpr std::int64_t kMostNumbers = 1 << 21;  // of all vectors of a reply

EmbedQueue::MakePart json_maker(const EmbedRequest& asked, const VectorSpec& spec) {
  const bool base64 = asked.encoding == EmbedRequest::Encoding::kBase64;
  const std::optional<std::int64_t> dimensions = asked.dimensions;
  return [base64, dimensions, &spec](std::vector<float> vector) {
    if (dimensions) shorten(vector, static_cast<size_t>(*dimensions), spec);
    return base64 ? '"' + vector_as_base64(vector) + '"' : vector_as_json(vector);
  };
}

std::string openai_body(const EmbedResult& result, const std::string& model) {
  std::string data;
  for (size_t i = 0; i < result.vectors.size(); ++i) {
    data += fmt::format(R"({}{{"object":"embedding","index":{},"embedding":{}}})", i == 0 ? "" : ",", i,
                        result.vectors[i]);
  }
  const OrderedJson usage{{"prompt_tokens", result.tokens}, {"total_tokens", result.tokens}};
  return fmt::format(R"({{"object":"list","data":[{}],"model":{},"usage":{}}})", data, to_text(model),
                     to_text(usage));
}

std::string ollama_body(const EmbedResult& result, const std::string& model) {
  return fmt::format(
      R"({{"model":{},"embeddings":[{}],"total_duration":{},"load_duration":0,"prompt_eval_count":{}}})",
      to_text(model), fmt::join(result.vectors, ","), result.took.count(), result.tokens);
}

}  // namespace

void Service::check_generates() const {
  const ModelSpec& config = model_.model->config();
  if (config.generates()) return;
  if (config.rerank.classifies()) {
    throw ApiError({.param = "model", .code = "model_not_generative"},
                   "the model is a classifier: it scores texts, and writes none; use /v1/rerank");
  }
  throw ApiError({.param = "model", .code = "model_not_generative"},
                 "the model is an encoder: it makes vectors of texts, and writes none; use /v1/embeddings");
}

// A text that is cut keeps what its tokenizer puts around it.
Service::Tokens Service::embed_tokens(const EmbedRequest& asked, size_t index) const {
  const auto& input = asked.inputs[index];
  if (const auto* tokens = std::get_if<Tokens>(&input)) {
    model_.embedder.check({*tokens});
    return *tokens;
  }
  const auto& text = std::get<std::string>(input);
  const bool cut = asked.too_long == EmbedRequest::TooLong::kCut;
  if (!cut) check_text(text.size(), asked.param);
  Tokens own = model_.tokenizer.encode(text, Tokenizer::Specials::kPlain);
  Tokens all = model_.tokenizer.as_document(own);
  const std::int64_t over = std::ssize(all) - model_.embedder.longest();
  if (cut && over > 0) {
    own.resize(own.size() - std::min(own.size(), static_cast<size_t>(over)));
    all = model_.tokenizer.as_document(std::move(own));
  }
  model_.embedder.check({all});
  return all;
}

Response Service::embed(const HttpRequest& request, const EmbedRequest& asked, WriteVectors write) {
  const VectorHead& head = model_.vectors;
  if (asked.dimensions.value_or(1) > head.width()) {
    bad_param("dimensions",
              fmt::format("dimensions is {}, and the model's vectors have {}", *asked.dimensions, head.width()));
  }
  const std::int64_t width = asked.dimensions.value_or(head.width());
  if (std::ssize(asked.inputs) * width > kMostNumbers) {
    bad_param(asked.param, fmt::format("{} vectors of {} numbers are too many for one reply; send at most {} texts",
                                       asked.inputs.size(), width, kMostNumbers / width));
  }
  const std::shared_ptr<const Caller> caller = caller_of(request);
  EmbedWork::Asked work;
  work.tenant = caller->id;
  work.dialect = dialect_of(request.path);
  std::int64_t tokens = 0;
  for (size_t i = 0; i < asked.inputs.size(); ++i) {
    work.texts.push_back({embed_tokens(asked, i)});
    tokens += std::ssize(work.texts.back().tokens);
    if (tokens > kMostEmbeddedTokens) {
      bad_param(asked.param,
                fmt::format("the texts have more than {} tokens together; send fewer", kMostEmbeddedTokens));
    }
  }
  work.head = &head;
  work.as_json = json_maker(asked, head.spec());
  work.write = std::move(write);
  work.ticket = std::move(admit(1, *caller).front());
  Response response;
  response.work = std::make_unique<EmbedWork>(embeddings_, metrics_, std::move(work));
  response.body = Response::Body::kWhole;
  return response;
}

Response Service::openai_embeddings(const HttpRequest& request) {
  const EmbedRequest asked = parse_openai_embeddings(parse_json(request.body));
  return embed(request, asked,
               [model = options_.model_name](const EmbedResult& result) { return openai_body(result, model); });
}

Response Service::ollama_embed(const HttpRequest& request) {
  return embed(request, parse_ollama_embed(parse_json(request.body)),
               [model = options_.model_name](const EmbedResult& result) { return ollama_body(result, model); });
}

Response Service::ollama_embeddings(const HttpRequest& request) {
  return embed(request, parse_ollama_embeddings(parse_json(request.body)), [](const EmbedResult& result) {
    return fmt::format(R"({{"embedding":{}}})", result.vectors.front());
  });
}

}  // namespace kvasir
