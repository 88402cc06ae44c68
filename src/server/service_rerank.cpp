// The routes that score documents for a query.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "server/api/api_error.h"
#include "server/api/rerank_parse.h"
#include "server/service.h"

namespace kvasir {
namespace {

// What was written as a part. A number that is none sorts last.
float score_of(const std::string& part) {
  float out = std::numeric_limits<float>::quiet_NaN();
  std::from_chars(part.data(), part.data() + part.size(), out);
  return std::isfinite(out) ? out : -std::numeric_limits<float>::infinity();
}

// Indices of documents, the best ones first, and of equals the earlier ones.
std::vector<size_t> best_first(std::span<const std::string> parts) {
  std::vector<float> scores;
  for (const std::string& part : parts) scores.push_back(score_of(part));
  std::vector<size_t> out(parts.size());
  std::iota(out.begin(), out.end(), size_t{0});
  std::ranges::stable_sort(out, std::ranges::greater{}, [&](size_t i) { return scores[i]; });
  return out;
}

std::string rerank_body(const EmbedResult& result, const RerankRequest& asked, const std::string& model) {
  const std::vector<size_t> order = best_first(result.vectors);
  const size_t count = std::min(order.size(), static_cast<size_t>(asked.top_n.value_or(std::ssize(order))));
  std::string results;
  for (size_t i = 0; i < count; ++i) {
    const std::string& score = result.vectors[order[i]];
    results += fmt::format(R"({}{{"index":{},"relevance_score":{})", i == 0 ? "" : ",", order[i],
                           std::isfinite(score_of(score)) ? score : "null");
    if (asked.return_documents) {
      results += fmt::format(R"(,"document":{{"text":{}}})", to_text(asked.documents[order[i]]));
    }
    results += '}';
  }
  const OrderedJson usage{{"prompt_tokens", result.tokens}, {"total_tokens", result.tokens}};
  return fmt::format(R"({{"object":"list","model":{},"results":[{}],"usage":{}}})", to_text(model), results,
                     to_text(usage));
}

}  // namespace

// A pair that is too long is refused where nothing says that its document may be cut.
EmbedQueue::Text Service::rerank_pair(const RerankRequest& asked, size_t index) const {
  PairPrompt::Asked pair{asked.query, asked.documents[index]};
  if (asked.instruction) pair.instruction = *asked.instruction;
  PairPrompt::Cut cut;
  if (asked.max_tokens_per_doc) cut = {model_.embedder.longest(), *asked.max_tokens_per_doc};
  if (!asked.max_tokens_per_doc) check_text(asked.documents[index].size(), fmt::format("documents[{}]", index));
  Tokenizer::Pair made = model_.reranker->prompt.tokens(pair, cut);
  if (std::ssize(made.tokens) > model_.embedder.longest()) {
    bad_param("documents", fmt::format("documents[{}] makes {} tokens with the query, and at most {} are read; "
                                       "shorten it, or let max_tokens_per_doc cut it",
                                       index, made.tokens.size(), model_.embedder.longest()));
  }
  model_.embedder.check({made.tokens, made.types});
  return {std::move(made.tokens), std::move(made.types)};
}

Response Service::rerank(const HttpRequest& request) {
  RerankRequest asked = parse_rerank(parse_json(request.body));
  if (!model_.reranker) {
    throw ApiError({.param = "model", .code = "model_not_a_reranker"}, kNoReranker);
  }
  if (asked.instruction && !model_.reranker->prompt.takes_instruction()) {
    bad_param("instruction", "the model was trained without instructions: leave out instruction");
  }
  check_text(asked.query.size(), "query");
  const std::shared_ptr<const Caller> caller = caller_of(request);
  EmbedWork::Asked work;
  work.tenant = caller->id;
  work.dialect = dialect_of(request.path);
  work.head = &model_.reranker->head;
  std::int64_t tokens = 0;
  for (size_t i = 0; i < asked.documents.size(); ++i) {
    work.texts.push_back(rerank_pair(asked, i));
    tokens += std::ssize(work.texts.back().tokens);
    if (tokens > kMostEmbeddedTokens) {
      bad_param("documents", fmt::format("the documents have more than {} tokens together, each with the query; send "
                                         "fewer",
                                         kMostEmbeddedTokens));
    }
  }
  work.as_json = [](const std::vector<float>& score) { return fmt::format("{}", score.front()); };
  if (!asked.return_documents) asked.documents.clear();
  work.write = [asked = std::move(asked), model = options_.model_name](const EmbedResult& result) {
    return rerank_body(result, asked, model);
  };
  work.ticket = std::move(admit(1, *caller).front());
  Response response;
  response.work = std::make_unique<EmbedWork>(embeddings_, metrics_, std::move(work));
  response.body = Response::Body::kWhole;
  return response;
}

}  // namespace kvasir
