// The tensors of a classifier, by the words of its family.
#include <fmt/format.h>

#include "model/families/family.h"
#include "model/tensors.h"

namespace kvasir {

void add_rerank_tensors(const ModelSpec& spec, std::vector<TensorSpec>& out) {
  if (!spec.rerank.classifies()) return;
  const RerankForm& form = spec.family->rerank;
  const auto add = [&out](std::string_view name, std::string_view gguf, TensorSpec like, bool biased) {
    like.name = fmt::format("{}.weight", name);
    like.gguf = fmt::format("{}.weight", gguf);
    out.push_back(like);
    if (!biased) return;
    like.cols = 0;
    like.bias = true;
    like.name = fmt::format("{}.bias", name);
    like.gguf = fmt::format("{}.bias", gguf);
    out.push_back(std::move(like));
  };
  const RerankSpec::Between& between = spec.rerank.between;
  if (between.there) {
    add(form.between, "cls", {.rows = spec.hidden, .cols = spec.hidden, .role = TensorRole::kRerankBetween},
        between.bias);
  }
  if (between.norm) add(form.norm, "cls.norm", {.rows = spec.hidden, .role = TensorRole::kRerankNorm}, false);
  add(form.out, "cls.output", {.rows = spec.rerank.labels, .cols = spec.hidden, .role = TensorRole::kRerankOut},
      spec.rerank.bias);
}

}  // namespace kvasir
