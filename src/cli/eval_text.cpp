#include "cli/eval_text.h"

#include <algorithm>

#include "backend/make_backend.h"
#include "base/mmap_file.h"
#include "cli/progress.h"
#include "model/kv_basis.h"

namespace kvasir {

std::vector<TokenId> opening_of(const Tokenizer& tokenizer) {
  constexpr TokenId kText = -1;
  std::vector<TokenId> document = tokenizer.as_document({kText});
  document.erase(std::ranges::find(document, kText), document.end());
  return document;
}

std::vector<TokenId> tokens_of_file(const std::string& path, const Tokenizer& tokenizer) {
  const MmapFile file(path);
  return tokenizer.encode(file.text(), Tokenizer::Specials::kParse);
}

std::unique_ptr<Backend> backend_of(const ModelOptions& options) {
  return make_backend(
      {options.device, options.threads, options.isa, parse_activation_precision(options.activations)});
}

std::unique_ptr<Model> load_with_bar(const ModelOptions& options, const std::filesystem::path& folder,
                                     Backend& backend) {
  Progress loading("loading");
  return load_model(folder, backend,
                    {batch_tokens(options.max_batch_tokens, options.device),
                     [&loading](int done, int all) {
                       loading.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(all));
                     },
                     find_kv_basis(options.kv_basis, folder), parse_weight_quantization(options.weights)});
}

}  // namespace kvasir
