// Qwen3: Llama's layers with a norm of each query and key head; later layers may have a window.
#include "model/families/family.h"

namespace kvasir {
namespace {

// What Qwen3-Reranker was trained with.
constexpr std::string_view kRerankText =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: "
    "{instruction}\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n"
    "</think>\n\n";

void read_qwen3(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  config.attention_bias = in.flag_or("attention_bias", false);
  read_later_windows(in, config);
}

ModelSpec qwen3_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) layer.attention.qk_norm = AttentionSpec::QkNorm::kPerHead;
  // Qwen3-Reranker is such a model, and says nothing of it: it is asked for "yes" or "no".
  spec.rerank.kind = RerankSpec::Kind::kTokens;
  spec.rerank.end = RerankSpec::End::kYesOrNo;
  return spec;
}

std::vector<TensorSpec> qwen3_tensors(const ModelSpec& spec) { return decoder_tensors(spec, GgufRows::kAsStored); }

}  // namespace

extern constexpr Family kQwen3Family{.name = "qwen3",
                                     .gguf = {.architecture = "qwen3"},
                                     .defaults = {.head_dim = 128},
                                     .rerank = {.text = kRerankText},
                                     .known_norm_eps = 1e-6,
                                     .read = read_qwen3,
                                     .spec = qwen3_spec,
                                     .tensors = qwen3_tensors};

}  // namespace kvasir
