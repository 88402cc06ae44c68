// Mistral: Llama's layers without biases, all of them with one window, or none. Its GGUF files say that they are
// llama. Ministral-3: queries grow with the position beyond the context before yarn.
#include <array>

#include "model/families/family.h"

namespace kvasir {
namespace {

void read_mistral(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  read_windows(in, kUsualWindow, {}, config);
}

void read_ministral3(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  read_windows(in, 0, {}, config);
  read_query_growth(in, config);
}

std::vector<TensorSpec> mistral_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kInterleaved);
}

constexpr std::array kMistralKnown{kGgufRopeFactors};

constexpr std::array<std::string_view, 3> kMinistral3Known{kGgufRopeFactors, "attention.temperature_scale",
                                                           "rope.scaling.yarn_beta"};

}  // namespace

extern constexpr Family kMistralFamily{.name = "mistral",
                                       .gguf = {.architecture = "llama", .known = kMistralKnown},
                                       .read = read_mistral,
                                       .spec = plain_decoder,
                                       .tensors = mistral_tensors};

extern constexpr Family kMinistral3Family{.name = "ministral3",
                                          .gguf = {.architecture = "mistral3", .known = kMinistral3Known},
                                          .defaults = {.norm_eps = 1e-5, .rope_theta = 1e6},
                                          .read = read_ministral3,
                                          .spec = plain_decoder,
                                          .tensors = mistral_tensors};

}  // namespace kvasir
