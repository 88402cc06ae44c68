#include "cli/rerank_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/model_options.h"
#include "cli/run_command.h"
#include "cli/text_arguments.h"
#include "server/api/json_fields.h"

namespace kvasir {
namespace {

struct RerankOptions {
  ModelOptions model;
  std::string query;
  std::vector<std::string> documents;
  size_t top_n = 0;  // 0: all
};

void rerank(const RerankOptions& options) {
  const std::vector<std::string> documents = texts_of_arguments(options.documents);
  if (documents.empty())
    fail_usage("there is nothing to rerank", "DOCUMENT", "give a text, or \"-\" for lines of the input");
  Llm llm = load_with_progress(llm_options(options.model));
  const std::vector<float> scores = llm.rerank(options.query, documents);
  std::vector<size_t> order(documents.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  if (options.top_n > 0) order.resize(std::min(order.size(), options.top_n));
  for (const size_t i : order) {
    fmt::print("{{\"index\":{},\"relevance_score\":{},\"document\":{}}}\n", i, scores[i], to_text(documents[i]));
  }
}

}  // namespace

void add_rerank_command(CLI::App& app) {
  auto options = std::make_shared<RerankOptions>();
  CLI::App* command =
      app.add_subcommand("rerank", "Score documents for a query: a line of JSON for each, best first");
  command->footer("Scores are what the model's files define: of cross-encoders, of Qwen3-Reranker.");
  command->add_option("QUERY", options->query, "What is looked for")->required();
  command->add_option("DOCUMENT", options->documents, "Texts; \"-\": each line of the input")->required();
  command->add_option("-n,--top-n", options->top_n, "How many are shown; 0: all");
  add_model_options(*command, options->model);
  command->callback([options] { rerank(*options); });
}

}  // namespace kvasir
