// GGUF files that hold the same numbers in other tensors: joined or apart, and as older files of latents have them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "backend/make_backend.h"
#include "backend/quant/decode.h"
#include "base/error.h"
#include "model/config.h"
#include "model/convert.h"
#include "model/gguf/gguf_model.h"
#include "model/random_model.h"
#include "support/fixtures.h"
#include "support/forward.h"
#include "support/random_data.h"

namespace kvasir::testing {
namespace {

constexpr auto kOver = GgufWriteOptions::Existing::kReplace;
const std::vector<TokenId> kSomeText{3, 14, 15, 26, 53, 58, 9, 7, 32, 38, 46, 26, 43, 38, 32, 50, 28};

struct Numbers {
  std::vector<std::int64_t> shape;  // row-major
  std::vector<float> values;

  std::int64_t rows() const { return shape[shape.size() - 2]; }  // of a matrix, or of each of several
  std::int64_t cols() const { return shape.back(); }
};

// A model written as GGUF in float32, to be written again with other tensors.
class Layout {
 public:
  explicit Layout(const std::string& golden)
      : path_(std::filesystem::temp_directory_path() / ("kvasir_layout_" + std::to_string(::getpid()) + ".gguf")) {
    convert_to_gguf(golden_dir(golden), path_, {}, {DType::kF32, {kOver, 1, {}}});
    const GgufModel model(path_);
    architecture_ = std::string(model.text_if("general.architecture").value());
    for (const auto& [key, value] : model.files().front().content.metadata) {
      if (const auto* number = std::get_if<std::uint64_t>(&value)) set(key, static_cast<std::uint32_t>(*number));
      if (const auto* number = std::get_if<double>(&value)) set(key, static_cast<float>(*number));
      if (const auto* text = std::get_if<std::string_view>(&value)) set(key, std::string(*text));
      if (const auto* flag = std::get_if<bool>(&value)) set(key, *flag);
    }
    for (const auto& [name, tensor] : model.files().front().content.tensors) {
      Numbers& to = tensors_[std::string(name)];
      to.shape = tensor.shape;
      to.values.resize(tensor.bytes.size() / sizeof(float));
      std::memcpy(to.values.data(), tensor.bytes.data(), tensor.bytes.size());
    }
  }
  ~Layout() { std::filesystem::remove(path_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  void set(std::string_view key, GgufOutValue value) { keys_[std::string(key)] = std::move(value); }
  void set_own(std::string_view key, std::uint32_t value) { set(architecture_ + "." + std::string(key), value); }
  void drop_own(std::string_view key) { keys_.erase(architecture_ + "." + std::string(key)); }
  Numbers take(const std::string& name) {
    const auto node = tensors_.extract(name);
    EXPECT_FALSE(node.empty()) << name;
    return node.empty() ? Numbers{{0, 0}, {}} : node.mapped();
  }
  void put(const std::string& name, Numbers numbers) { tensors_[name] = std::move(numbers); }

  // Rows of the one below those of the other, in each part.
  void join(std::initializer_list<std::string> names, const std::string& as) {
    std::vector<Numbers> parts;
    for (const std::string& name : names) parts.push_back(take(name));
    Numbers out{parts.front().shape, {}};
    std::int64_t rows = 0;
    for (const Numbers& part : parts) rows += part.rows();
    out.shape[out.shape.size() - 2] = rows;
    const size_t outer = out.shape.size() == 3 ? static_cast<size_t>(out.shape.front()) : 1;
    for (size_t i = 0; i < outer; ++i) {
      for (const Numbers& part : parts) {
        const size_t size = part.values.size() / outer;
        const auto from = part.values.begin() + static_cast<std::ptrdiff_t>(i * size);
        out.values.insert(out.values.end(), from, from + static_cast<std::ptrdiff_t>(size));
      }
    }
    put(as, std::move(out));
  }
  void split(const std::string& name, std::initializer_list<std::pair<std::string, std::int64_t>> into) {
    const Numbers all = take(name);
    auto from = all.values.begin();
    for (const auto& [part, rows] : into) {
      const auto end = from + rows * all.cols();
      put(part, {{rows, all.cols()}, {from, end}});
      from = end;
    }
  }

  std::vector<float> logits() const {
    std::vector<GgufOutKey> keys;
    for (const auto& [key, value] : keys_) keys.push_back({key, value});
    std::vector<GgufOutTensor> tensors;
    for (const auto& [name, numbers] : tensors_) {
      tensors.push_back({name, numbers.shape, DType::kF32, [&numbers = numbers](std::int64_t row, std::byte* to) {
                           const auto cols = static_cast<size_t>(numbers.cols());
                           std::memcpy(to, &numbers.values[static_cast<size_t>(row) * cols], cols * sizeof(float));
                           return true;
                         }});
    }
    write_gguf(path_, keys, tensors, {kOver, 1, {}});
    return logits_of(path_);
  }
  static std::vector<float> logits_of(const std::filesystem::path& path) {
    const auto backend = make_backend({"ref", 1, "auto"});
    return forward(*load_model(path, *backend, {64, {}}), *backend, kSomeText);
  }

 private:
  std::filesystem::path path_;
  std::string architecture_;
  std::map<std::string, GgufOutValue> keys_;
  std::map<std::string, Numbers> tensors_;
};

std::string of_layer(int layer, std::string_view name) {
  return "blk." + std::to_string(layer) + "." + std::string(name);
}

TEST(GgufLayouts, QueriesKeysAndValuesMayBeTogether) {
  Layout joined("qwen2");
  const std::vector<float> want = joined.logits();
  for (const int i : {0, 1}) {
    joined.join({of_layer(i, "attn_q.weight"), of_layer(i, "attn_k.weight"), of_layer(i, "attn_v.weight")},
                of_layer(i, "attn_qkv.weight"));
  }
  EXPECT_EQ(joined.logits(), want);
}

TEST(GgufLayouts, OrApart) {
  Layout apart("phi3");
  const std::vector<float> want = apart.logits();
  const AttentionSpec attention = load_config(golden_dir("phi3")).attention(0);
  for (const int i : {0, 1}) {
    apart.split(of_layer(i, "attn_qkv.weight"), {{of_layer(i, "attn_q.weight"), attention.q_width()},
                                                 {of_layer(i, "attn_k.weight"), attention.k_width()},
                                                 {of_layer(i, "attn_v.weight"), attention.v_width()}});
  }
  EXPECT_EQ(apart.logits(), want);
}

TEST(GgufLayouts, GatesAndUpsOfExpertsMayBeTogether) {
  Layout joined("qwen3_moe");
  const std::vector<float> want = joined.logits();
  joined.join({"blk.1.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight"}, "blk.1.ffn_gate_up_exps.weight");
  EXPECT_EQ(joined.logits(), want);
}

// [heads][latent][keys] and [heads][values][latent] as [heads][keys, then values][latent].
void join_latents(Layout& file, int layer) {
  const Numbers keys = file.take(of_layer(layer, "attn_k_b.weight"));
  const Numbers values = file.take(of_layer(layer, "attn_v_b.weight"));
  const std::int64_t heads = keys.shape[0];
  const std::int64_t latent = keys.rows();
  const std::int64_t nope = keys.cols();
  Numbers out{{heads * (nope + values.rows()), latent}, {}};
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t k = 0; k < nope; ++k) {
      for (std::int64_t c = 0; c < latent; ++c) {
        out.values.push_back(keys.values[static_cast<size_t>((head * latent + c) * nope + k)]);
      }
    }
    const auto from = values.values.begin() + head * values.rows() * latent;
    out.values.insert(out.values.end(), from, from + values.rows() * latent);
  }
  file.put(of_layer(layer, "attn_kv_b.weight"), std::move(out));
}

TEST(GgufLayouts, FilesFromBeforeLatentsWereCachedAreRead) {
  Layout old("deepseek_v3");
  const std::vector<float> want = old.logits();
  const AttentionSpec attention = load_config(golden_dir("deepseek_v3")).attention(0);
  for (const int i : {0, 1}) join_latents(old, i);
  old.drop_own("attention.key_length_mla");
  old.drop_own("attention.value_length_mla");
  old.set_own("attention.key_length", static_cast<std::uint32_t>(attention.latent.q_dim()));
  old.set_own("attention.value_length", static_cast<std::uint32_t>(attention.latent.v_dim));
  old.set_own("attention.head_count_kv", static_cast<std::uint32_t>(attention.heads));
  EXPECT_EQ(old.logits(), want);
}

TEST(GgufLayouts, LayersThatPredictFurtherTokensAreNotRun) {
  Layout more("glm4_moe");
  const std::vector<float> want = more.logits();
  const int layers = load_config(golden_dir("glm4_moe")).layer_count();
  more.set_own("block_count", static_cast<std::uint32_t>(layers) + 1);
  more.set_own("nextn_predict_layers", 1);
  EXPECT_EQ(more.logits(), want);
}

// Matrices that are turned around have rows of other lengths in the file, and are quantized along these. Rows go to
// all experts: rounding would send some of them to others.
TEST(GgufLayouts, QuantizedLatentsStayCloseToTheirOriginals) {
  const auto folder = std::filesystem::temp_directory_path() / ("kvasir_latents_" + std::to_string(::getpid()));
  RandomModelOptions options;
  options.config = R"({"model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 96,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 96, "rms_norm_eps": 1e-6,
      "max_position_embeddings": 128, "q_lora_rank": 64, "kv_lora_rank": 64, "qk_nope_head_dim": 32,
      "qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 4, "n_group": 1,
      "topk_group": 1, "moe_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1})";
  write_random_model(parse_config(options.config, "here"), folder / "hf", options);
  const std::vector<float> want = Layout::logits_of(folder / "hf");
  convert_to_gguf(folder / "hf", folder / "m.gguf", {}, {DType::kQ8_0, {kOver, 1, {}}});
  const GgufModel written(folder / "m.gguf");
  EXPECT_EQ(written.find("blk.0.attn_k_b.weight")->dtype, DType::kQ8_0);
  EXPECT_EQ(written.find("blk.0.attn_k_b.weight")->shape, (std::vector<std::int64_t>{4, 64, 32}));
  const double error = relative_error(Layout::logits_of(folder / "m.gguf"), want);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.03);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvasir::testing
