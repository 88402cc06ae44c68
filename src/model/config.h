// A model's shape and constants: what config.json or a GGUF file says, checked, in plain data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "backend/tensor.h"
#include "base/ids.h"
#include "layout/kv_layout.h"
#include "layout/kv_policy.h"

namespace kvasir {

enum class Architecture : std::uint8_t { kLlama, kMistral, kQwen2, kQwen3, kGemma2, kGemma3, kPhi3, kGpt2 };

std::string_view name_of(Architecture architecture);  // as config.json's model_type spells it
Architecture parse_architecture(std::string_view model_type,
                                const std::string& where);  // or an Error listing them

// How positions become angles. Frequencies are 1 / theta^(2i/dim), changed by the scaling.
struct RopeConfig {
  enum class Scaling : std::uint8_t { kNone, kLinear, kLlama3, kFactors, kOther };
  Scaling scaling = Scaling::kNone;
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;          // llama3
  double high_freq_factor = 4.0;         // llama3
  std::int64_t original_context = 8192;  // llama3
  std::vector<float> factors;            // kFactors: [head_dim / 2], what each frequency is divided by
  double rotated = 1.0;                  // the share of head_dim that is rotated (partial_rotary_factor)
  std::string other;                     // kOther: the type's name, such as "yarn"; known, but not computed here
};

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  int layers = 0;
  int hidden = 0;
  int ffn = 0;
  int heads = 0;     // query heads
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  int vocab = 0;
  std::int64_t context = 0;  // max_position_embeddings
  double norm_eps = 1e-5;
  bool tied_embeddings = false;
  bool attention_bias = false;  // of q, k and v; of o too, except in qwen2
  bool mlp_bias = false;
  DType dtype = DType::kBF16;  // of the stored weights
  std::string quantization;    // quant_method of the stored weights, such as "fp8"; empty: plain numbers
  RopeConfig rope;
  std::vector<std::int64_t> windows;  // per layer, 0 = all earlier tokens; empty: no layer has a window
  std::vector<TokenId> eos;           // any of them ends a text
  TokenId bos = -1;  // -1: none, or none of the vocabulary's: what texts begin with the tokenizer says
};

// The largest sizes that are believed. With them no product of a config (parameters, bytes per token) leaves
// 62 bits.
struct ShapeLimits {
  static constexpr std::int64_t kLayers = 4096;
  static constexpr std::int64_t kHidden = 1 << 20;
  static constexpr std::int64_t kFfn = 1 << 22;
  static constexpr std::int64_t kHeads = 1 << 16;
  static constexpr std::int64_t kHeadDim = 1 << 14;
  static constexpr std::int64_t kQueryWidth = 1 << 24;  // heads * head_dim
  static constexpr std::int64_t kVocab = 1 << 24;
  static constexpr std::int64_t kContext = std::int64_t{1} << 40;
};

// Reads and checks config.json (a path to the file, or to the folder that holds it; generation_config.json
// beside it adds end tokens), or the metadata of a GGUF model (see find_gguf). Throws Error on anything missing, of
// the wrong type, out of range or not supported.
ModelConfig load_config(const std::filesystem::path& path);

// The same from text: what the fuzzer drives. `where` names the source in errors.
ModelConfig parse_config(std::string_view json, const std::string& where);

// Throws Error unless every size lies within ShapeLimits and the sizes agree with each other. What
// load_config and parse_config return has passed it.
void check_shape(const ModelConfig& config, const std::string& where);

// Throws Error when the engine cannot compute this model today: its architecture, its rope, its quantization.
// A plan needs no forward pass, so the loaders accept more than this does.
void check_runnable(const ModelConfig& config, const std::string& where);

// All weights, in numbers of parameters; tied embeddings counted once.
std::uint64_t parameter_count(const ModelConfig& config);

// The groups of layers that are cached alike under a policy. Recent tokens are kept as whole rows. Throws Error
// when it names a layer that the model does not have, or a rank beyond the heads' size.
std::vector<KvGroup> kv_groups(const ModelConfig& config, const KvPolicy& policy);

}  // namespace kvasir
