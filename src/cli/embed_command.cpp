#include "cli/embed_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/model_options.h"
#include "cli/run_command.h"
#include "cli/text_arguments.h"
#include "server/answer/embed_work.h"

namespace kvasir {
namespace {

struct EmbedOptions {
  ModelOptions model;
  std::vector<std::string> texts;
};

void embed(const EmbedOptions& options) {
  const std::vector<std::string> texts = texts_of_arguments(options.texts);
  if (texts.empty()) fail_usage("there is nothing to embed", "TEXT", "give a text, or \"-\" for lines of the input");
  Llm llm = load_with_progress(llm_options(options.model));
  for (const std::vector<float>& vector : llm.embed(texts)) fmt::print("{}\n", vector_as_json(vector));
}

}  // namespace

void add_embed_command(CLI::App& app) {
  auto options = std::make_shared<EmbedOptions>();
  CLI::App* command = app.add_subcommand("embed", "Make vectors of texts: a line of JSON for each");
  command->footer("An encoder's vectors are as its files say; a decoder's are its last token's hidden state.");
  command->add_option("TEXT", options->texts, "Texts; \"-\": each line of the input")->required();
  add_model_options(*command, options->model);
  command->callback([options] { embed(*options); });
}

}  // namespace kvasir
