// Configs of some families as short texts, and what is read of them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/config.h"

namespace kvasir {

inline constexpr const char* kLlama = R"("model_type":"llama","num_hidden_layers":16,"hidden_size":2048,
  "intermediate_size":8192,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,
  "max_position_embeddings":131072,"torch_dtype":"bfloat16")";

inline constexpr const char* kQwen2 = R"("model_type":"qwen2","num_hidden_layers":4,"hidden_size":896,
  "intermediate_size":4864,"num_attention_heads":14,"num_key_value_heads":2,"vocab_size":151936,
  "max_position_embeddings":32768)";

inline constexpr const char* kMistral = R"("model_type":"mistral","num_hidden_layers":2,"hidden_size":4096,
  "intermediate_size":14336,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":32000,
  "max_position_embeddings":32768)";

inline constexpr const char* kGpt2 = R"("model_type":"gpt2","n_layer":12,"n_head":12,"n_embd":768,"n_positions":1024,
  "vocab_size":50257)";

// The sizes of one family and more keys. The first of two equal keys counts, so `more` comes first
// and wins.
inline ModelSpec parsed(const std::string& more, const char* sizes = kLlama) {
  return parse_config(fmt::format("{{{}{}{}}}", more, more.empty() ? "" : ",", sizes), "config.json");
}

inline std::string error_of_config(const std::string& json) {
  try {
    parse_config(json, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

using Windows = std::vector<std::int64_t>;

inline Windows windows_of(const ModelSpec& spec) {
  Windows out;
  for (const LayerSpec& layer : spec.layers) out.push_back(layer.attention.window);
  return out;
}

// Empty: no layer has one.
inline Windows windows_of(const std::string& more, const char* sizes) {
  Windows out = windows_of(parsed(more, sizes));
  if (std::ranges::all_of(out, [](std::int64_t window) { return window == 0; })) out.clear();
  return out;
}

}  // namespace kvasir
