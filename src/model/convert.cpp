#include "model/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "backend/quant/encode.h"
#include "backend/weight_reader.h"
#include "base/error.h"
#include "model/config.h"
#include "model/families/family.h"
#include "model/rope_frequencies.h"
#include "model/tensors.h"
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

// No architecture of GGUF that these families are written as says which layers have a window.
void check_convertible(const ModelSpec& spec, const std::string& where) {
  if (spec.family->gguf.empty()) {
    fail_input(fmt::format("{} models are not written as GGUF yet", spec.family->name), where,
               "run the model from its folder");
  }
  for (const LayerSpec& layer : spec.layers) {
    if (layer.attention.window == 0) continue;
    fail_input(
        fmt::format("layers of this model see {} tokens back, and a GGUF file of architecture {} cannot say so",
                    layer.attention.window, spec.family->gguf),
        where, "run the model from its folder");
  }
  for (const RopeSpec& rope : spec.ropes) {
    if (rope.whole_pairs) continue;
    fail_input("its yarn has \"truncate\": false, and a GGUF file cannot say so", where,
               "run the model from its folder");
  }
  const MoeSpec& first = spec.layers.front().mlp.moe;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.mlp.moe == first) continue;
    fail_input(fmt::format("some layers of this model have experts and others have none, and a GGUF file of "
                           "architecture {} cannot say so",
                           spec.family->gguf),
               where, "run the model from its folder");
  }
}

struct Metadata {
  std::string architecture;
  std::vector<GgufOutKey> entries;

  void add(std::string key, GgufOutValue value) { entries.push_back({std::move(key), std::move(value)}); }
  std::string own(const std::string& key) const { return architecture + "." + key; }
  void size(const std::string& key, std::int64_t value) { add(own(key), static_cast<std::uint32_t>(value)); }
  void number(const std::string& key, double value) { add(own(key), static_cast<float>(value)); }
};

void add_experts(const ModelSpec& spec, Metadata& out) {
  const MlpSpec& mlp = spec.layers.front().mlp;
  if (mlp.moe.experts == 0) return;
  out.size("expert_count", mlp.moe.experts);
  out.size("expert_used_count", mlp.moe.used);
  out.size("expert_feed_forward_length", mlp.width);
  out.add(out.own("expert_weights_norm"), mlp.moe.normalized);
}

std::vector<GgufOutKey> metadata_of(const ModelSpec& spec, const std::filesystem::path& folder, DType type) {
  const AttentionSpec& attention = spec.uniform_attention();
  const RopeSpec& rope = spec.ropes.front();
  Metadata out;
  out.architecture = spec.family->gguf;
  out.add("general.architecture", out.architecture);
  out.add("general.name", std::filesystem::weakly_canonical(folder).filename().string());
  out.add("general.file_type", file_type_of(type));
  out.add("general.quantization_version", std::uint32_t{2});
  out.size("block_count", spec.layer_count());
  out.size("context_length", std::min<std::int64_t>(spec.context, UINT32_MAX));
  out.size("embedding_length", spec.hidden);
  out.size("feed_forward_length", spec.layers.front().mlp.width);
  add_experts(spec, out);
  out.size("attention.head_count", attention.heads);
  out.size("attention.head_count_kv", attention.kv.heads);
  out.size("attention.key_length", attention.kv.k_dim);
  out.size("attention.value_length", attention.kv.v_dim);
  out.number("attention.layer_norm_rms_epsilon", spec.norm_eps);
  out.size("rope.dimension_count", attention.kv.k_dim);
  out.number("rope.freq_base", rope.theta);
  out.size("vocab_size", spec.vocab);
  if (rope.scaling == RopeSpec::Scaling::kLinear) {
    out.add(out.own("rope.scaling.type"), std::string("linear"));
    out.number("rope.scaling.factor", rope.factor);
  }
  if (rope.scaling == RopeSpec::Scaling::kYarn) {
    out.add(out.own("rope.scaling.type"), std::string("yarn"));
    out.number("rope.scaling.factor", rope.factor);
    out.size("rope.scaling.original_context_length", rope.original_context);
    out.number("rope.scaling.yarn_beta_fast", rope.beta_fast);
    out.number("rope.scaling.yarn_beta_slow", rope.beta_slow);
    out.number("rope.scaling.attn_factor", rope.magnitude / (0.1 * std::log(rope.factor) + 1.0));
  }
  return std::move(out.entries);
}

// Rows of a stored weight in another type, and in GGUF's order where it has one.
class Converter {
 public:
  Converter(const Weights& weights, DType wanted) : weights_(weights), wanted_(wanted) {}

  void add(const TensorSpec& spec) {
    if (spec.vector()) return add_vector(spec);
    if (spec.expert >= 0) return add_expert(spec);
    const HostWeight from = weights_.matrix(spec.name, spec.row_count(), spec.cols);
    const DType type = converted_type(wanted_, spec);
    GgufOutTensor tensor{spec.gguf, {spec.rows, spec.cols}, type, {}};
    tensor.make_row = [from, type, spec](std::int64_t row, std::byte* to) {
      return encode(from, source_row(spec, static_cast<int>(row)), type, to);
    };
    tensors_.push_back(std::move(tensor));
  }

  // GGUF has all experts of a layer as one tensor: the first makes it, and each adds its rows.
  void add_expert(const TensorSpec& spec) {
    const DType type = converted_type(wanted_, spec);
    if (spec.expert == 0) {
      const auto parts = std::make_shared<std::vector<HostWeight>>();
      GgufOutTensor tensor{spec.gguf, {spec.experts, spec.rows, spec.cols}, type, {}};
      tensor.make_row = [parts, type, rows = spec.rows](std::int64_t row, std::byte* to) {
        return encode((*parts)[static_cast<size_t>(row / rows)], static_cast<int>(row % rows), type, to);
      };
      experts_[spec.gguf] = parts;
      tensors_.push_back(std::move(tensor));
    }
    experts_.at(spec.gguf)->push_back(weights_.matrix(spec.name, spec.row_count(), spec.cols));
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
  static bool encode(const HostWeight& from, int row, DType type, std::byte* to) {
    std::vector<float> values(static_cast<size_t>(from.cols));
    read_row(from, row, values.data());
    if (!fit(values, type)) return false;
    encode_row(type, values.data(), from.cols, to);
    return true;
  }
  static int source_row(const TensorSpec& spec, int row) {
    return spec.gguf_rows == GgufRows::kInterleaved ? InterleavedRows{spec.head_dim}.hugging_face_row(row) : row;
  }

  void add_vector(const TensorSpec& spec) {
    const std::vector<float> ours = read_vector(weights_.vector(spec.name, spec.row_count()));
    std::vector<float> values;
    for (int i = 0; i < spec.row_count(); ++i) values.push_back(ours[static_cast<size_t>(source_row(spec, i))]);
    add_values(spec.gguf, std::move(values));
  }

  static bool fit(const std::vector<float>& values, DType type) {
    const float most = type == DType::kF32 || type == DType::kBF16 ? 3.38e38F : 65504.0F;
    return std::ranges::all_of(values, [most](float value) { return std::fabs(value) <= most; });
  }

  const Weights& weights_;
  DType wanted_;
  std::vector<GgufOutTensor> tensors_;
  std::map<std::string, std::shared_ptr<std::vector<HostWeight>>> experts_;  // by the name of all experts' tensor
};

// What llama3 does to the frequencies, as the numbers that divide them; empty where nothing does.
std::vector<float> rope_factors(const ModelSpec& spec) {
  const RopeSpec& rope = spec.ropes.front();
  if (rope.scaling == RopeSpec::Scaling::kFactors) return rope.factors;
  std::vector<float> factors;
  if (rope.scaling != RopeSpec::Scaling::kLlama3) return factors;
  RopeSpec plain;
  plain.theta = rope.theta;
  const int dim = spec.uniform_attention().kv.k_dim;
  const std::vector<double> unscaled = rope_frequencies(plain, dim);
  const std::vector<double> scaled = rope_frequencies(rope, dim);
  for (size_t i = 0; i < scaled.size(); ++i) factors.push_back(static_cast<float>(unscaled[i] / scaled[i]));
  return factors;
}

}  // namespace

DType converted_type(DType wanted, const TensorSpec& tensor) {
  if (tensor.vector() || tensor.role == TensorRole::kRouter) return DType::kF32;
  const bool table = tensor.role == TensorRole::kEmbedding || tensor.role == TensorRole::kHead;
  const DType first = wanted == DType::kQ4_K && table ? DType::kQ6_K : wanted;
  for (const DType type : {first, DType::kQ8_0}) {
    if (tensor.cols % block_elements(type) == 0) return type;
  }
  return DType::kF16;
}

void convert_to_gguf(const std::filesystem::path& model, const std::filesystem::path& out,
                     std::vector<GgufOutKey> tokenizer, const ConvertOptions& options) {
  if (!can_encode(options.weights)) {
    fail_usage(fmt::format("{} is a type that is read and not written", name_of(options.weights)), "--weights",
               "use f32, f16, bf16, q8_0, q4_0, q4_k or q6_k");
  }
  const ModelSpec spec = load_config(model);
  check_runnable(spec, model.string());
  check_convertible(spec, model.string());
  std::vector<GgufOutKey> metadata = metadata_of(spec, model, options.weights);
  const Weights weights(model, tensors_of(spec));
  Converter converter(weights, options.weights);
  for (const TensorSpec& tensor : tensors_of(spec)) converter.add(tensor);
  const std::vector<float> factors = rope_factors(spec);
  if (!factors.empty()) converter.add_values(std::string(kGgufRopeFactors), factors);
  std::ranges::move(tokenizer, std::back_inserter(metadata));
  write_gguf(out, metadata, converter.tensors(), options.write);
}

}  // namespace kvasir
