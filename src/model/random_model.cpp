#include "model/random_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "model/config.h"
#include "model/decoder.h"
#include "model/random_file.h"
#include "model/random_weights.h"

namespace kvasir {
namespace {

std::string dtype_name(DType dtype) { return dtype == DType::kF32 ? "F32" : dtype == DType::kF16 ? "F16" : "BF16"; }

std::string header_of(const std::vector<RandomFileTensor>& tensors, DType dtype) {
  std::string json = "{";
  std::int64_t at = 0;
  for (const RandomFileTensor& tensor : tensors) {
    const std::int64_t end = at + tensor.elements() * static_cast<std::int64_t>(block_bytes(dtype));
    json += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", at == 0 ? "" : ",",
                        tensor.name, dtype_name(dtype), fmt::join(tensor.shape, ","), at, end);
    at = end;
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');  // the data begin at a multiple of 8
  return json;
}

// A tensor's bytes, in pieces that fit into memory.
void write_pieces(const RandomFileTensor& tensor, DType dtype,
                  const std::function<void(std::span<const std::byte>)>& write) {
  constexpr std::int64_t kChunk = 1 << 20;
  if (!tensor.plain()) {
    for (int expert = 0; expert < tensor.experts(); ++expert) write(tensor.expert_bytes(expert, dtype));
    return;
  }
  std::vector<std::byte> chunk;
  for (std::int64_t first = 0; first < tensor.elements(); first += kChunk) {
    chunk.resize(row_bytes(dtype, std::min(kChunk, tensor.elements() - first)));
    fill(*tensor.parts.front(), dtype, first, chunk);
    write(chunk);
  }
}

std::string rope_json(const RopeSpec& rope) {
  if (rope.scaling == RopeSpec::Scaling::kLinear) {
    return fmt::format(R"({{"rope_theta": {}, "rope_type": "linear", "factor": {}}})", rope.theta, rope.factor);
  }
  if (rope.scaling == RopeSpec::Scaling::kLlama3) {
    return fmt::format(
        R"({{"rope_theta": {}, "rope_type": "llama3", "factor": {}, "low_freq_factor": {}, "high_freq_factor": {}, "original_max_position_embeddings": {}}})",
        rope.theta, rope.factor, rope.low_freq_factor, rope.high_freq_factor, rope.original_context);
  }
  if (rope.scaling == RopeSpec::Scaling::kYarn) {
    return fmt::format(
        R"({{"rope_theta": {}, "rope_type": "yarn", "factor": {}, "original_max_position_embeddings": {}, "beta_fast": {}, "beta_slow": {}, "truncate": {}, "attention_factor": {}}})",
        rope.theta, rope.factor, rope.original_context, rope.beta_fast, rope.beta_slow, rope.whole_pairs,
        rope.magnitude);
  }
  return fmt::format(R"({{"rope_theta": {}, "rope_type": "default"}})", rope.theta);
}

// The window, and which layers have it; null where none has.
std::string windows_json(const ModelSpec& spec) {
  std::int64_t window = 0;
  std::string types;
  for (const LayerSpec& layer : spec.layers) {
    window = std::max(window, layer.attention.window);
    types += fmt::format(R"({}"{}")", types.empty() ? "" : ", ",
                         layer.attention.window > 0 ? "sliding_attention" : "full_attention");
  }
  if (window == 0) return R"("sliding_window": null)";
  return fmt::format(R"("sliding_window": {}, "use_sliding_window": true, "layer_types": [{}])", window, types);
}

// What families with experts ask for, each by its own names.
std::string experts_json(const ModelSpec& spec) {
  const MlpSpec& mlp = spec.layers.front().mlp;
  if (mlp.moe.experts == 0) return {};
  return fmt::format(
      R"("num_experts": {0}, "num_local_experts": {0}, "num_experts_per_tok": {1}, "moe_intermediate_size": {2}, "norm_topk_prob": {3},
  )",
      mlp.moe.experts, mlp.moe.used, mlp.width, mlp.moe.normalized);
}

// REQUIRES: layers that are alike but for their windows, as every shape's are.
std::string config_json(const ModelSpec& spec) {
  const LayerSpec& layer = spec.layers.front();
  const AttentionSpec& attention = layer.attention;
  const char* dtype = spec.dtype == DType::kF32 ? "float32" : spec.dtype == DType::kF16 ? "float16" : "bfloat16";
  return fmt::format(
      R"({{
  "model_type": "{}", "hidden_act": "silu",
  "num_hidden_layers": {}, "hidden_size": {}, "intermediate_size": {},
  "num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {},
  "vocab_size": {}, "max_position_embeddings": {}, "rms_norm_eps": {},
  "tie_word_embeddings": {}, "attention_bias": {}, "mlp_bias": {},
  {}{},
  "rope_parameters": {}, "dtype": "{}"
}}
)",
      spec.family_name(), spec.layer_count(), spec.hidden, layer.mlp.width, attention.heads, attention.kv.heads,
      attention.kv.k_dim, spec.vocab, spec.context, spec.norm_eps, spec.tied_embeddings, attention.out_bias,
      layer.mlp.bias, experts_json(spec), windows_json(spec), rope_json(spec.ropes.front()), dtype);
}

}  // namespace

void write_random_model(const ModelSpec& spec, const std::filesystem::path& folder,
                        const RandomModelOptions& options) {
  check_runnable(spec, "shape");  // what is written is to be read again
  const std::string config = options.config.empty() ? config_json(spec) : options.config;
  if (to_text(parse_config(config, "config.json")) != to_text(spec)) {
    fail_usage(fmt::format("a shape does not say all that a {} model is", spec.family_name()), "shape",
               "give a config.json of it: kvasir synth --config FILE");
  }
  const std::vector<RandomTensor> made = random_tensors(spec, options.seed);
  const std::vector<RandomFileTensor> tensors = file_tensors(made);
  const std::string header = header_of(tensors, spec.dtype);
  std::uint64_t all = 0;
  for (const RandomFileTensor& tensor : tensors)
    all += static_cast<std::uint64_t>(tensor.elements()) * block_bytes(spec.dtype);

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

  std::uint64_t done = 0;
  for (const RandomFileTensor& tensor : tensors) {
    write_pieces(tensor, spec.dtype, [&](std::span<const std::byte> piece) {
      file.write(reinterpret_cast<const char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
      done += piece.size();
      if (options.progress) options.progress(done, all);
    });
  }
  file.close();
  std::ofstream(folder / "config.json") << config;
  if (!file) fail_system("writing failed: is the disk full?", path.string());
}

std::unique_ptr<Model> make_random_model(const ModelSpec& spec, Backend& backend, const LoadOptions& options,
                                         std::uint64_t seed) {
  check_runnable(spec, "shape");
  check_limits(spec, backend, "shape");
  const ModelSpec settled = for_context(spec, options.context);
  return make_decoder(settled, RandomWeights(settled, seed), backend, options);
}

}  // namespace kvasir
