// How files hold heads that guess the next tokens, and what is said of files that do not.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "backend/make_backend.h"
#include "base/error.h"
#include "model/draft_head.h"
#include "model/random_file.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class HeadFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A safetensors file of these specs' random tensors, with numbers of type I64 besides.
  void write(const std::vector<ModelSpec>& specs, const std::vector<std::int64_t>& d2t = {}) {
    std::string header = "{";
    std::string data;
    for (const ModelSpec& spec : specs) {
      const std::vector<RandomTensor> made = random_tensors(spec, 5);
      for (const RandomFileTensor& tensor : file_tensors(made)) {
        std::string bytes;
        for (int expert = 0; expert < tensor.experts(); ++expert) {
          const std::vector<std::byte> part = tensor.expert_bytes(expert, DType::kF32);
          bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
        }
        std::string shape;
        for (const std::int64_t axis : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(axis);
        add(header, data, tensor.name, "F32", shape, bytes);
      }
    }
    if (!d2t.empty()) {
      const std::string bytes(reinterpret_cast<const char*>(d2t.data()), d2t.size() * sizeof d2t[0]);
      add(header, data, "d2t", "I64", std::to_string(d2t.size()), bytes);
    }
    header += "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::ofstream file(folder_ / "model.safetensors", std::ios::binary);
    const std::uint64_t size = header.size();
    file.write(reinterpret_cast<const char*>(&size), sizeof size);
    file << header << data;
  }
  void write_config(const std::string& text) { std::ofstream(folder_ / "config.json") << text; }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("kvasir_draft_heads_{}", ::getpid());
  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 1, "auto"});

 private:
  static void add(std::string& header, std::string& data, const std::string& name, const char* type,
                  const std::string& shape, const std::string& bytes) {
    header += (header.size() > 1 ? ",\"" : "\"") + name + R"(":{"dtype":")" + type + R"(","shape":[)" + shape +
              R"(],"data_offsets":[)" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + bytes.size()) + "]}";
    data += bytes;
  }
};

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Behind the last layer of a checkpoint, by each family's names; and configs that promise one, and files that hold
// none.
TEST_F(HeadFilesTest, NextNIsFoundByTheFamilysNames) {
  const std::vector<std::pair<const char*, const char*>> names{
      {"deepseek_v3", "model.layers.2.eh_proj.weight"},    {"glm4_moe", "model.layers.2.shared_head.norm.weight"},
      {"glm4_moe_lite", "model.layers.2.enorm.weight"},    {"qwen3_next", "mtp.fc.weight"},
      {"qwen3_5", "mtp.layers.0.self_attn.q_norm.weight"}, {"qwen3_5_moe", "mtp.pre_fc_norm_hidden.weight"}};
  for (const auto& [golden, name] : names) {
    write_config(text_of(golden_dir(golden) / "config.json"));
    ModelSpec target = load_config(golden_dir(golden));
    target.dtype = DType::kF32;
    const ModelSpec spec = *next_n_head(target);
    const std::vector<TensorSpec> tensors = own_tensors(spec);
    EXPECT_TRUE(std::ranges::any_of(tensors, [&](const TensorSpec& one) { return one.name == name; })) << golden;
    write({target});
    EXPECT_FALSE(has_next_n_head(folder_)) << golden;
    auto model = load_model(folder_, *backend_, {64, {}});
    EXPECT_THROW(load_next_n_head(folder_, *model, *backend_, {64, {}}), Error);
    write({target, spec});
    EXPECT_TRUE(has_next_n_head(folder_)) << golden;
    model = load_model(folder_, *backend_, {64, {}});
    const DraftHead head = load_next_n_head(folder_, *model, *backend_, {64, {}});
    EXPECT_EQ(head.model->config().draft.target_layers, 2);
    EXPECT_TRUE(head.tokens.empty());
  }
  EXPECT_FALSE(has_next_n_head(golden_dir("gqa")));
  EXPECT_FALSE(has_next_n_head(golden_dir("deepseek_v3")));  // whose config says that there is one
}

TEST_F(HeadFilesTest, EagleHasItsOwnFolder) {
  const auto target = load_golden("gqa", *backend_, 64);
  const ModelSpec& t = target->config();
  const auto config = [&](const std::string& more) {
    return R"({"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1, "hidden_size": )" +
           std::to_string(t.hidden) +
           R"(, "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
           "vocab_size": 101, "max_position_embeddings": 96, "rms_norm_eps": 1e-5, "hidden_act": "silu", "draft_vocab_size": 20)" +
           more + "}";
  };
  write_config(config(""));
  EXPECT_TRUE(is_eagle3_head(folder_));
  EXPECT_FALSE(is_eagle3_head(golden_dir("gqa")));
  ModelSpec spec = eagle3_spec(folder_, t);
  EXPECT_EQ(spec.draft.reads, (std::vector<int>{2, t.layer_count() / 2, std::max(t.layer_count() - 3, 0)}));
  write_config(
      config(R"(, "norm_before_residual": true, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]})"));
  spec = eagle3_spec(folder_, t);
  EXPECT_EQ(spec.draft.reads, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(spec.draft.residual_is_normed);
  spec.dtype = DType::kF32;
  std::vector<std::int64_t> d2t;
  for (std::int64_t i = 0; i < 20; ++i) d2t.push_back(4 * i + 1);
  write({spec}, d2t);
  const DraftHead head = load_eagle3_head(folder_, *target, *backend_, {64, {}});
  EXPECT_EQ(head.tokens.at(0), 1);
  EXPECT_EQ(head.tokens.at(19), 96);
  const auto expect = [&](const char* what) {
    try {
      load_eagle3_head(folder_, *target, *backend_, {64, {}});
      ADD_FAILURE() << "it was loaded";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  d2t[7] = 1000;
  write({spec}, d2t);
  expect("d2t makes token 1007 of token 7, and the target has 101");
  d2t.pop_back();
  write({spec}, d2t);
  expect("d2t is not 20 numbers");
  write({spec});
  expect("no d2t says");
}

}  // namespace
}  // namespace kvasir::testing
