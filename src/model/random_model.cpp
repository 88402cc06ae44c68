#include "model/random_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "model/llama.h"
#include "model/random_weights.h"

namespace kvasir {
namespace {

std::string dtype_name(DType dtype) { return dtype == DType::kF32 ? "F32" : dtype == DType::kF16 ? "F16" : "BF16"; }

std::string header_of(const std::vector<RandomTensor>& tensors, DType dtype) {
  std::string json = "{";
  std::int64_t at = 0;
  for (const RandomTensor& tensor : tensors) {
    const std::int64_t end = at + tensor.elements() * static_cast<std::int64_t>(block_bytes(dtype));
    const std::string shape =
        tensor.cols == 0 ? fmt::format("[{}]", tensor.rows) : fmt::format("[{},{}]", tensor.rows, tensor.cols);
    json += fmt::format(R"({}"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", at == 0 ? "" : ",",
                        tensor.name, dtype_name(dtype), shape, at, end);
    at = end;
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');  // the data begin at a multiple of 8
  return json;
}

std::string config_json(const ModelConfig& c) {
  std::string rope = fmt::format(R"({{"rope_theta": {}, "rope_type": "default"}})", c.rope.theta);
  if (c.rope.scaling == RopeConfig::Scaling::kLinear) {
    rope = fmt::format(R"({{"rope_theta": {}, "rope_type": "linear", "factor": {}}})", c.rope.theta, c.rope.factor);
  } else if (c.rope.scaling == RopeConfig::Scaling::kLlama3) {
    rope = fmt::format(
        R"({{"rope_theta": {}, "rope_type": "llama3", "factor": {}, "low_freq_factor": {}, "high_freq_factor": {}, "original_max_position_embeddings": {}}})",
        c.rope.theta, c.rope.factor, c.rope.low_freq_factor, c.rope.high_freq_factor, c.rope.original_context);
  }
  const char* dtype = c.dtype == DType::kF32 ? "float32" : c.dtype == DType::kF16 ? "float16" : "bfloat16";
  return fmt::format(
      R"({{
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "num_hidden_layers": {}, "hidden_size": {}, "intermediate_size": {},
  "num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {},
  "vocab_size": {}, "max_position_embeddings": {}, "rms_norm_eps": {},
  "tie_word_embeddings": {}, "attention_bias": {}, "mlp_bias": {},
  "rope_parameters": {}, "dtype": "{}"
}}
)",
      c.layers, c.hidden, c.ffn, c.heads, c.kv_heads, c.head_dim, c.vocab, c.context, c.norm_eps, c.tied_embeddings,
      c.attention_bias, c.mlp_bias, rope, dtype);
}

}  // namespace

void write_random_model(const ModelConfig& config, const std::filesystem::path& folder,
                        const RandomModelOptions& options) {
  const std::vector<RandomTensor> tensors = random_tensors(config, options.seed);
  const std::string header = header_of(tensors, config.dtype);
  std::uint64_t all = 0;
  for (const RandomTensor& tensor : tensors)
    all += static_cast<std::uint64_t>(tensor.elements()) * block_bytes(config.dtype);

  std::filesystem::create_directories(folder);
  const std::filesystem::path path = folder / "model.safetensors";
  if (std::filesystem::exists(path) || std::filesystem::exists(folder / "config.json")) {
    fail_input("there is a model in it already", folder.string(), "give another folder, or remove it first");
  }
  const auto space = std::filesystem::space(folder);
  if (space.available < all + header.size()) {
    fail_system(
        fmt::format("the disk has {} left, and the model needs {}", format_bytes(space.available), format_bytes(all)),
        folder.string());
  }
  std::ofstream file(path, std::ios::binary);
  const std::uint64_t header_bytes = header.size();
  file.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));

  constexpr std::int64_t kChunk = 1 << 20;
  std::vector<std::byte> chunk;
  std::uint64_t done = 0;
  for (const RandomTensor& tensor : tensors) {
    for (std::int64_t first = 0; first < tensor.elements(); first += kChunk) {
      chunk.resize(row_bytes(config.dtype, std::min(kChunk, tensor.elements() - first)));
      fill(tensor, config.dtype, first, chunk);
      file.write(reinterpret_cast<const char*>(chunk.data()), static_cast<std::streamsize>(chunk.size()));
      done += chunk.size();
      if (options.progress) options.progress(done, all);
    }
  }
  file.close();
  std::ofstream(folder / "config.json") << config_json(config);
  if (!file) fail_system("writing failed: is the disk full?", path.string());
}

std::unique_ptr<Model> make_random_model(const ModelConfig& config, Backend& backend, const LoadOptions& options,
                                         std::uint64_t seed) {
  check_runnable(config, "shape");
  return make_llama(config, RandomWeights(config, seed), backend, options);
}

}  // namespace kvasir
