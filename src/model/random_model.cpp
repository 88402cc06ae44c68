#include "model/random_model.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

struct Tensor {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;  // 0: a vector of `rows`
  float mean = 0.0F;
  float deviation = 0.0F;

  std::int64_t elements() const { return rows * (cols == 0 ? 1 : cols); }
};

// Deviations that keep activations near 1 through any number of layers.
std::vector<Tensor> tensors_of(const ModelConfig& c) {
  const float narrow = 1.0F / std::sqrt(static_cast<float>(c.hidden));
  const float wide = 1.0F / std::sqrt(static_cast<float>(c.ffn));
  const std::int64_t q = static_cast<std::int64_t>(c.heads) * c.head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(c.kv_heads) * c.head_dim;
  std::vector<Tensor> out{{"model.embed_tokens.weight", c.vocab, c.hidden, 0.0F, 1.0F}};
  const auto biased = [&out](const std::string& at, std::int64_t rows, bool wanted) {
    if (wanted) out.push_back({at + ".bias", rows, 0, 0.0F, 0.02F});
  };
  for (int i = 0; i < c.layers; ++i) {
    const std::string at = fmt::format("model.layers.{}.", i);
    out.push_back({at + "input_layernorm.weight", c.hidden, 0, 1.0F, 0.0F});
    out.push_back({at + "self_attn.q_proj.weight", q, c.hidden, 0.0F, narrow});
    biased(at + "self_attn.q_proj", q, c.attention_bias);
    out.push_back({at + "self_attn.k_proj.weight", kv, c.hidden, 0.0F, narrow});
    biased(at + "self_attn.k_proj", kv, c.attention_bias);
    out.push_back({at + "self_attn.v_proj.weight", kv, c.hidden, 0.0F, narrow});
    biased(at + "self_attn.v_proj", kv, c.attention_bias);
    out.push_back({at + "self_attn.o_proj.weight", c.hidden, q, 0.0F, 1.0F / std::sqrt(static_cast<float>(q))});
    biased(at + "self_attn.o_proj", c.hidden, c.attention_bias);
    out.push_back({at + "post_attention_layernorm.weight", c.hidden, 0, 1.0F, 0.0F});
    out.push_back({at + "mlp.gate_proj.weight", c.ffn, c.hidden, 0.0F, narrow});
    biased(at + "mlp.gate_proj", c.ffn, c.mlp_bias);
    out.push_back({at + "mlp.up_proj.weight", c.ffn, c.hidden, 0.0F, narrow});
    biased(at + "mlp.up_proj", c.ffn, c.mlp_bias);
    out.push_back({at + "mlp.down_proj.weight", c.hidden, c.ffn, 0.0F, wide});
    biased(at + "mlp.down_proj", c.hidden, c.mlp_bias);
  }
  out.push_back({"model.norm.weight", c.hidden, 0, 1.0F, 0.0F});
  if (!c.tied_embeddings) out.push_back({"lm_head.weight", c.vocab, c.hidden, 0.0F, narrow});
  return out;
}

std::string dtype_name(DType dtype) { return dtype == DType::kF32 ? "F32" : dtype == DType::kF16 ? "F16" : "BF16"; }

std::string header_of(const std::vector<Tensor>& tensors, DType dtype) {
  std::string json = "{";
  std::int64_t at = 0;
  for (const Tensor& tensor : tensors) {
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

// Four sums of uniform bytes are near enough to a normal distribution, and fast enough for gigabytes.
float noise(std::uint64_t seed, std::uint64_t tensor, std::uint64_t element) {
  const std::uint64_t bits = mix(seed, tensor, element);
  const int sum = static_cast<int>(bits & 0xffff) + static_cast<int>(bits >> 16 & 0xffff) +
                  static_cast<int>(bits >> 32 & 0xffff) + static_cast<int>(bits >> 48);
  return (static_cast<float>(sum) - 131070.0F) / 37837.0F;  // mean 0, deviation 1
}

void append(DType dtype, float value, std::vector<char>& to) {
  const auto put = [&to](auto stored) {
    const size_t at = to.size();
    to.resize(at + sizeof stored);
    std::memcpy(to.data() + at, &stored, sizeof stored);
  };
  if (dtype == DType::kF32) return put(value);
  put(dtype == DType::kF16 ? CodecF16::encode(value) : CodecBF16::encode(value));
}

}  // namespace

void write_random_model(const ModelConfig& config, const std::filesystem::path& folder,
                        const RandomModelOptions& options) {
  const std::vector<Tensor> tensors = tensors_of(config);
  const std::string header = header_of(tensors, config.dtype);
  std::uint64_t all = 0;
  for (const Tensor& tensor : tensors)
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
  std::vector<char> chunk;
  std::uint64_t done = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (std::int64_t first = 0; first < tensors[t].elements(); first += kChunk) {
      chunk.clear();
      const std::int64_t end = std::min(first + kChunk, tensors[t].elements());
      for (std::int64_t i = first; i < end; ++i) {
        const float value =
            tensors[t].deviation == 0.0F ? 0.0F : noise(options.seed, t, static_cast<std::uint64_t>(i));
        append(config.dtype, tensors[t].mean + tensors[t].deviation * value, chunk);
      }
      file.write(chunk.data(), static_cast<std::streamsize>(chunk.size()));
      done += chunk.size();
      if (options.progress) options.progress(done, all);
    }
  }
  file.close();
  std::ofstream(folder / "config.json") << config_json(config);
  if (!file) fail_system("writing failed: is the disk full?", path.string());
}

}  // namespace kvasir
