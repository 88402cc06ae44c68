// Answers of encoder-decoders against Hugging Face transformers, on every backend; and that nothing of an answer
// depends on what it was computed beside, or in which parts.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "backend/cpu/isa.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "model/config.h"
#include "model/convert.h"
#include "model/families/family.h"
#include "model/gguf/gguf_form.h"
#include "model/gguf/gguf_model.h"
#include "model/safetensors.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

struct SourceAnswer {
  std::vector<TokenId> source;
  std::vector<TokenId> text;
  std::vector<float> logits;  // [text][vocab]
};

std::vector<SourceAnswer> read_answers(const std::string& name) {
  const SafetensorsFile file(golden_dir(name) / "answers.safetensors");
  const auto read = [&file](const std::string& tensor, auto& into) {
    const auto bytes = file.tensors.find(tensor)->second.bytes;
    into.resize(bytes.size() / sizeof into[0]);
    std::memcpy(into.data(), bytes.data(), bytes.size());
  };
  std::vector<SourceAnswer> out;
  for (std::string i = "0"; file.tensors.contains("source" + i); i = std::to_string(out.size())) {
    SourceAnswer& one = out.emplace_back();
    read("source" + i, one.source);
    read("text" + i, one.text);
    read("logits" + i, one.logits);
  }
  return out;
}

// A model and an engine on it that tells the logits of every row of each answer.
class SourceEngine {
 public:
  SourceEngine(const std::string& name, const BackendOptions& options, EngineConfig config = {}, int max_rows = 512)
      : backend_(make_backend(options)) {
    LoadOptions load;
    load.max_rows = max_rows;
    model_ = load_model(golden_dir(name), *backend_, load);
    engine_ = std::make_unique<Engine>(*backend_, *model_, std::move(config));
    engine_->observe([this](RequestId id, Position, std::span<const float> row) {
      logits_[id].insert(logits_[id].end(), row.begin(), row.end());
    });
  }

  // The logits of each text's rows; all of them in one batch.
  std::vector<std::vector<float>> run(std::span<const SourceAnswer> answers) {
    std::vector<RequestId> ids;
    for (const SourceAnswer& one : answers) {
      Request request;
      request.source = one.source;
      request.prompt = one.text;
      request.score_from = 0;
      request.max_tokens = 1;
      ids.push_back(engine_->submit(request, [this](const Update& update) { records_[update.id] = *update.record; }));
    }
    engine_->run();
    std::vector<std::vector<float>> out;
    for (const RequestId id : ids) out.push_back(logits_[id]);
    last_ = records_[ids.back()];
    return out;
  }

  Engine& engine() { return *engine_; }
  const Model& model() const { return *model_; }
  const Backend& backend() const { return *backend_; }
  const RequestRecord& last() const { return last_; }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Engine> engine_;
  std::map<RequestId, std::vector<float>> logits_;
  std::map<RequestId, RequestRecord> records_;
  RequestRecord last_;
};

EngineConfig in_f32() {
  EngineConfig config;
  config.kv = uniform_policy(KvFormat::kF32);
  return config;
}

class EncoderDecoderTest : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> all_encoder_decoders() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(golden_dir(""))) {
    if (std::filesystem::exists(entry.path() / "answers.safetensors"))
      out.push_back(entry.path().filename().string());
  }
  std::ranges::sort(out);
  return out;
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, EncoderDecoderTest, ::testing::ValuesIn(all_encoder_decoders()),
                         [](const auto& one) { return one.param; });

double worst_of(const std::vector<float>& logits, const std::vector<float>& expected) {
  double largest = 0;
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    worst = std::max(worst, std::abs(static_cast<double>(expected[i]) - logits[i]));
  }
  return worst / largest;
}

TEST_P(EncoderDecoderTest, EveryBackendMatchesTransformers) {
  const std::vector<SourceAnswer> golden = read_answers(GetParam());
  ASSERT_GE(golden.size(), 4U);
  std::vector<BackendOptions> backends{{"ref", 1, "auto", ActivationPrecision::kF32}};
  for (const Isa isa : available_isas()) {
    backends.push_back({"cpu", 2, std::string(name_of(isa)), ActivationPrecision::kF32});
  }
  if (!cuda_devices().empty()) backends.push_back({"cuda:0", 1, "auto", ActivationPrecision::kF32});
  for (const BackendOptions& options : backends) {
    SourceEngine engine(GetParam(), options, in_f32());
    const auto logits = engine.run(golden);
    for (size_t i = 0; i < golden.size(); ++i) {
      ASSERT_EQ(logits[i].size(), golden[i].logits.size());
      ASSERT_LT(worst_of(logits[i], golden[i].logits), 1e-4) << engine.backend().description() << ", source " << i;
    }
  }
}

// Alone, in one batch, with a source that is found, with steps of a few rows or of one: the same bits.
TEST_P(EncoderDecoderTest, NeighboursChunksAndHitsChangeNothing) {
  const std::vector<SourceAnswer> golden = read_answers(GetParam());
  SourceEngine together(GetParam(), {"cpu", 2, "auto"});
  const auto expected = together.run(golden);
  EXPECT_EQ(together.run(golden), expected);
  EXPECT_EQ(together.last().reuse.source_reused, std::ssize(golden.back().source));
  for (const int rows : {1, 4, 23}) {
    EngineConfig config;
    config.scheduler.max_batch_tokens = rows;
    SourceEngine alone(GetParam(), {"cpu", 2, "auto"}, config, rows);
    for (size_t i = 0; i < golden.size(); ++i) {
      EXPECT_EQ(alone.run({&golden[i], 1}).front(), expected[i]) << rows << " rows, source " << i;
      EXPECT_EQ(alone.last().reuse.source_reused, 0);
      EXPECT_EQ(alone.last().computed_tokens, std::ssize(golden[i].source) + std::ssize(golden[i].text));
    }
  }
}

// What is asked is the source: the answer begins as the config says.
TEST_P(EncoderDecoderTest, APromptIsTheSource) {
  const std::vector<SourceAnswer> golden = read_answers(GetParam());
  SourceEngine engine(GetParam(), {"cpu", 1, "auto"});
  std::vector<TokenId> answers[2];
  for (const bool as_prompt : {false, true}) {
    Request request;
    request.max_tokens = 9;
    request.sampling.temperature = 0;
    (as_prompt ? request.prompt : request.source) = golden[0].source;
    if (!as_prompt) request.prompt = engine.model().config().answer_start;
    engine.engine().submit(request, [&](const Update& update) {
      if (update.token >= 0) answers[as_prompt ? 1 : 0].push_back(update.token);
    });
    engine.engine().run();
  }
  EXPECT_EQ(answers[0].size(), 9U);
  EXPECT_EQ(answers[0], answers[1]);
}

// A golden model as a GGUF file of its own.
class GgufOf {
 public:
  GgufOf(const std::string& golden, DType type)
      : folder_(std::filesystem::temp_directory_path() / fmt::format("kvasir_{}_{}", ::getpid(), golden)) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    notes_ = convert_to_gguf(golden_dir(golden), path(), {}, {type, {}});
  }
  ~GgufOf() { std::filesystem::remove_all(folder_); }
  GgufOf(const GgufOf&) = delete;
  GgufOf& operator=(const GgufOf&) = delete;

  std::filesystem::path path() const { return folder_ / "model.gguf"; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::filesystem::path folder_;
  std::vector<std::string> notes_;
};

// What transformers computed, from a file of GGUF in float32; and in the folder's own type the folder's bits.
TEST_P(EncoderDecoderTest, AFileOfGgufIsTheSameModel) {
  if (gguf_form_of(load_config(golden_dir(GetParam()))).architecture.empty()) {
    EXPECT_THROW(GgufOf(GetParam(), DType::kF32), Error);
    return;
  }
  const std::vector<SourceAnswer> golden = read_answers(GetParam());
  const GgufOf exact(GetParam(), DType::kF32);
  SourceEngine engine(exact.path(), {"cpu", 2, "auto", ActivationPrecision::kF32}, in_f32());
  const auto logits = engine.run(golden);
  for (size_t i = 0; i < golden.size(); ++i) ASSERT_LT(worst_of(logits[i], golden[i].logits), 1e-4) << i;
  ASSERT_EQ(exact.notes().size(), 1U);
  EXPECT_NE(exact.notes()[0].find("attention.relative_max_distance"), std::string::npos);

  const GgufOf stored(GetParam(), DType::kBF16);
  SourceEngine folder(GetParam(), {"cpu", 2, "auto"});
  SourceEngine file(stored.path(), {"cpu", 2, "auto"});
  EXPECT_EQ(file.run(golden), folder.run(golden));
  EXPECT_EQ(file.model().config().answer_start, folder.model().config().answer_start);
  EXPECT_EQ(file.model().config().family->name, folder.model().config().family->name);

  const GgufOf again(GetParam(), DType::kF32);
  const GgufModel model(again.path());
  for (const char* name : {"token_embd.weight", "enc.blk.1.attn_o.weight", "enc.blk.0.attn_rel_b.weight",
                           "enc.output_norm.weight", "dec.blk.0.attn_norm.weight", "dec.blk.0.cross_attn_q.weight",
                           "dec.blk.0.cross_attn_norm.weight", "dec.blk.0.ffn_up.weight", "dec.output_norm.weight"}) {
    EXPECT_NE(model.find(name), nullptr) << name;
  }
  EXPECT_EQ(model.integer("t5.decoder_start_token_id", 0, 100), 0);
  EXPECT_EQ(model.integer("t5.attention.relative_buckets_count", 0, 100), 8);
  EXPECT_EQ(model.integer("t5.block_count", 0, 100), 2);
  EXPECT_EQ(model.integer("t5.decoder_block_count", 0, 100), folder.model().config().layer_count() / 2);
}

TEST(EncoderDecoderTest, WhatCannotBeAskedIsRefused) {
  SourceEngine engine("t5", {"cpu", 1, "auto"});
  const auto refused = [&](const Request& request) {
    try {
      engine.engine().submit(request, {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  Request request;
  request.prompt.assign(65, 3);  // the config's n_positions is 64
  EXPECT_NE(refused(request).find("the source has 65 tokens, and at most 64 are read"), std::string::npos)
      << refused(request);
  request.prompt = {1, 37};
  EXPECT_NE(refused(request).find("token 37 is not in the vocabulary"), std::string::npos);
  request.prompt = {1, 2};
  request.score_from = 0;
  EXPECT_NE(refused(request).find("scores were asked for of a source"), std::string::npos);
  request = {};
  request.prompt = {1, 2};
  request.kv = parse_kv_policy("f16, evict=h2o:20", "kv");
  EXPECT_FALSE(refused(request).empty());

  SourceEngine decoder("gqa", {"cpu", 1, "auto"});
  Request sourced;
  sourced.prompt = sourced.source = {1, 2};
  EXPECT_THROW(decoder.engine().submit(sourced, {}), Error);
}

// A policy's formats are the source's, too; what lets go of tokens is refused, or the text's alone.
TEST(EncoderDecoderTest, PoliciesHoldForTheSourceOrAreRefused) {
  const ModelSpec bart = load_config(golden_dir("bart"));
  const std::vector<KvGroup> groups = kv_groups(bart, parse_kv_policy("int8, window=20, sinks=4", "kv"));
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_FALSE(is_of_source(bart, groups[0]));
  EXPECT_EQ(groups[0].retention.window, 20);
  EXPECT_TRUE(is_of_source(bart, groups[1]));
  EXPECT_TRUE(groups[1].retention.full());
  EXPECT_EQ(groups[1].k_format, KvFormat::kInt8);
  EXPECT_EQ(groups[1].layers, (std::vector<int>{1, 3}));
  const auto mixed = kv_groups(bart, parse_kv_policy("f16, 1:int4", "kv"));
  EXPECT_EQ(mixed[1].layers, std::vector<int>{1});
  EXPECT_EQ(mixed[1].v_format, KvFormat::kInt4);
  for (const char* refused : {"f16, evict=h2o:20", "f16, rank=k:3/v:3", "f16, channels=60%"}) {
    EXPECT_THROW(kv_groups(bart, parse_kv_policy(refused, "kv")), Error) << refused;
  }
}

}  // namespace
}  // namespace kvasir::testing
