// Mistral: Llama's layers without biases, all of them with one window, or none. Its GGUF files say that they are
// llama.
#include "model/families/family.h"

namespace kvasir {
namespace {

void read_mistral(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  read_windows(in, kUsualWindow, {}, config);
}

std::vector<TensorSpec> mistral_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kInterleaved);
}

}  // namespace

extern constexpr Family kMistralFamily{
    .name = "mistral", .gguf = "llama", .read = read_mistral, .spec = plain_decoder, .tensors = mistral_tensors};

}  // namespace kvasir
