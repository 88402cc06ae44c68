#include "model/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backend/quant/encode.h"
#include "backend/weight_reader.h"
#include "base/error.h"
#include "model/gguf_names.h"
#include "model/rope_frequencies.h"
#include "model/weights.h"

namespace kvasir {
namespace {

// general.file_type: what most tensors are.
std::uint32_t file_type_of(DType type) {
  switch (type) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ8_0:
      return 7;
    case DType::kQ4_K:
      return 15;
    case DType::kQ6_K:
      return 18;
    default:
      return 32;  // bf16
  }
}

struct Metadata {
  std::vector<GgufOutKey> entries;

  void add(std::string key, GgufOutValue value) { entries.push_back({std::move(key), std::move(value)}); }
  void size(const std::string& key, std::int64_t value) { add("llama." + key, static_cast<std::uint32_t>(value)); }
  void number(const std::string& key, double value) { add("llama." + key, static_cast<float>(value)); }
};

std::vector<GgufOutKey> metadata_of(const ModelConfig& config, const std::filesystem::path& folder, DType type) {
  Metadata out;
  out.add("general.architecture", std::string("llama"));
  out.add("general.name", std::filesystem::weakly_canonical(folder).filename().string());
  out.add("general.file_type", file_type_of(type));
  out.add("general.quantization_version", std::uint32_t{2});
  out.size("block_count", config.layers);
  out.size("context_length", std::min<std::int64_t>(config.context, UINT32_MAX));
  out.size("embedding_length", config.hidden);
  out.size("feed_forward_length", config.ffn);
  out.size("attention.head_count", config.heads);
  out.size("attention.head_count_kv", config.kv_heads);
  out.size("attention.key_length", config.head_dim);
  out.size("attention.value_length", config.head_dim);
  out.number("attention.layer_norm_rms_epsilon", config.norm_eps);
  out.size("rope.dimension_count", config.head_dim);
  out.number("rope.freq_base", config.rope.theta);
  out.size("vocab_size", config.vocab);
  if (config.rope.scaling == RopeConfig::Scaling::kLinear) {
    out.add("llama.rope.scaling.type", std::string("linear"));
    out.number("rope.scaling.factor", config.rope.factor);
  }
  return std::move(out.entries);
}

// Rows of a stored weight in another type, and in GGUF's order where it has one.
class Converter {
 public:
  Converter(const ModelConfig& config, const Weights& weights, DType wanted)
      : config_(config), weights_(weights), wanted_(wanted) {}

  void add(std::string_view name, int rows, int cols) {
    const HostWeight from = weights_.matrix(name, rows, cols);
    const DType type = converted_type(wanted_, name, rows, cols);
    const bool rotated = rotated_rows(name) != RotatedRows::kNone;
    GgufOutTensor tensor{gguf_name_of(name), {rows, cols}, type, {}};
    tensor.make_row = [this, from, type, rotated](std::int64_t row, std::byte* to) {
      const int source =
          rotated ? RowOrder{config_.head_dim}.hugging_face_row(static_cast<int>(row)) : static_cast<int>(row);
      std::vector<float> values(static_cast<size_t>(from.cols));
      read_row(from, source, values.data());
      if (!fit(values, type)) return false;
      encode_row(type, values.data(), from.cols, to);
      return true;
    };
    tensors_.push_back(std::move(tensor));
  }

  void add_vector(std::string_view name, int size) {
    std::vector<float> values = read_vector(weights_.vector(name, size));
    if (rotated_rows(name) != RotatedRows::kNone) {
      const std::vector<float> ours = values;
      const RowOrder order{config_.head_dim};
      for (int i = 0; i < size; ++i) {
        values[static_cast<size_t>(i)] = ours[static_cast<size_t>(order.hugging_face_row(i))];
      }
    }
    add_values(gguf_name_of(name), std::move(values));
  }

  void add_values(std::string name, std::vector<float> values) {
    const auto size = static_cast<std::int64_t>(values.size());
    GgufOutTensor tensor{std::move(name), {size}, DType::kF32, {}};
    tensor.make_row = [values = std::move(values)](std::int64_t, std::byte* to) {
      encode_row(DType::kF32, values.data(), static_cast<int>(values.size()), to);
      return true;
    };
    tensors_.push_back(std::move(tensor));
  }

  const std::vector<GgufOutTensor>& tensors() const { return tensors_; }

 private:
  static bool fit(const std::vector<float>& values, DType type) {
    const float most = type == DType::kF32 || type == DType::kBF16 ? 3.38e38F : 65504.0F;
    return std::ranges::all_of(values, [most](float value) { return std::fabs(value) <= most; });
  }

  const ModelConfig& config_;
  const Weights& weights_;
  DType wanted_;
  std::vector<GgufOutTensor> tensors_;
};

struct Extent {
  int rows;
  int cols;
};

Extent extent_of(std::string_view name, const ModelConfig& c) {
  const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("q_proj")) return {c.heads * c.head_dim, c.hidden};
  if (has("k_proj") || has("v_proj")) return {c.kv_heads * c.head_dim, c.hidden};
  if (has("o_proj")) return {c.hidden, c.heads * c.head_dim};
  if (has("gate_proj") || has("up_proj")) return {c.ffn, c.hidden};
  if (has("down_proj")) return {c.hidden, c.ffn};
  return {1, c.hidden};  // a norm
}

// What llama3 does to the frequencies, as the numbers that divide them; empty where nothing does.
std::vector<float> rope_factors(const ModelConfig& config) {
  if (config.rope.scaling == RopeConfig::Scaling::kFactors) return config.rope.factors;
  std::vector<float> factors;
  if (config.rope.scaling != RopeConfig::Scaling::kLlama3) return factors;
  RopeConfig plain;
  plain.theta = config.rope.theta;
  const std::vector<double> unscaled = rope_frequencies(plain, config.head_dim);
  const std::vector<double> scaled = rope_frequencies(config.rope, config.head_dim);
  for (size_t i = 0; i < scaled.size(); ++i) factors.push_back(static_cast<float>(unscaled[i] / scaled[i]));
  return factors;
}

void add_all(const ModelConfig& config, const Weights& weights, Converter& to) {
  to.add(LlamaTensors::kEmbedding, config.vocab, config.hidden);
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const std::string& name : LlamaTensors::of_layer(layer)) {
      const auto [rows, cols] = extent_of(name, config);
      if (name.ends_with(".bias")) {
        if (weights.has(name)) to.add_vector(name, rows);
      } else if (rows == 1) {
        to.add_vector(name, cols);
      } else {
        to.add(name, rows, cols);
      }
    }
  }
  to.add_vector(LlamaTensors::kFinalNorm, config.hidden);
  if (!config.tied_embeddings) to.add(LlamaTensors::kHead, config.vocab, config.hidden);
  const std::vector<float> factors = rope_factors(config);
  if (!factors.empty()) to.add_values(std::string(kGgufRopeFactors), factors);
}

}  // namespace

DType converted_type(DType wanted, std::string_view name, int rows, int cols) {
  if (rows == 1) return DType::kF32;
  const bool table = name == LlamaTensors::kEmbedding || name == LlamaTensors::kHead;
  const DType first = wanted == DType::kQ4_K && table ? DType::kQ6_K : wanted;
  for (const DType type : {first, DType::kQ8_0}) {
    if (cols % block_elements(type) == 0) return type;
  }
  return DType::kF16;
}

void convert_to_gguf(const std::filesystem::path& model, const std::filesystem::path& out,
                     std::vector<GgufOutKey> tokenizer, const ConvertOptions& options) {
  if (!can_encode(options.weights)) {
    fail_usage(fmt::format("{} is a type that is read and not written", name_of(options.weights)), "--weights",
               "use f32, f16, bf16, q8_0, q4_0, q4_k or q6_k");
  }
  const ModelConfig config = load_config(model);
  check_runnable(config, model.string());
  const Weights weights(model);
  Converter converter(config, weights, options.weights);
  add_all(config, weights, converter);
  std::vector<GgufOutKey> metadata = metadata_of(config, model, options.weights);
  std::ranges::move(tokenizer, std::back_inserter(metadata));
  write_gguf(out, metadata, converter.tensors(), options.write);
}

}  // namespace kvasir
