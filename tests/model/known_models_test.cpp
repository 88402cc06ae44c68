#include "model/known_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kvasir {
namespace {

std::vector<std::int64_t> windows_of(const ModelSpec& spec) {
  std::vector<std::int64_t> out;
  for (const LayerSpec& layer : spec.layers) out.push_back(layer.attention.window);
  return out;
}

struct Known {
  const char* name;
  std::uint64_t parameters;
};

// As counted from the published checkpoints; Gemma 3 from 4B on without its vision tower, GLM-4.5 without the layer
// that predicts further tokens, MiniMax-M2 without the scales of its blocks.
TEST(Shapes, ParameterCounts) {
  const std::vector<Known> all{{"tales", 18'882'432},
                               {"tales-draft", 2'360'256},
                               {"llama-2-7b", 6'738'415'616},
                               {"llama-2-13b", 13'015'864'320},
                               {"llama-2-70b", 68'976'648'192},
                               {"llama-3-8b", 8'030'261'248},
                               {"llama-3-70b", 70'553'706'496},
                               {"llama-3.1-8b", 8'030'261'248},
                               {"llama-3.1-70b", 70'553'706'496},
                               {"llama-3.1-405b", 405'853'388'800},
                               {"llama-3.2-1b", 1'235'814'400},
                               {"llama-3.2-3b", 3'212'749'824},
                               {"llama-3.3-70b", 70'553'706'496},
                               {"tinyllama-1.1b", 1'100'048'384},
                               {"smollm2-135m", 134'515'008},
                               {"smollm2-360m", 361'821'120},
                               {"smollm2-1.7b", 1'711'376'384},
                               {"mistral-7b-v0.1", 7'241'732'096},
                               {"mistral-7b-v0.2", 7'241'732'096},
                               {"mistral-7b-v0.3", 7'248'023'552},
                               {"mistral-nemo-12b", 12'247'782'400},
                               {"qwen2.5-0.5b", 494'032'768},
                               {"qwen2.5-1.5b", 1'543'714'304},
                               {"qwen2.5-3b", 3'085'938'688},
                               {"qwen2.5-7b", 7'615'616'512},
                               {"qwen2.5-14b", 14'770'033'664},
                               {"qwen2.5-32b", 32'763'876'352},
                               {"qwen2.5-72b", 72'706'203'648},
                               {"qwen3-0.6b", 596'049'920},
                               {"qwen3-1.7b", 1'720'574'976},
                               {"qwen3-4b", 4'022'468'096},
                               {"qwen3-8b", 8'190'735'360},
                               {"qwen3-14b", 14'768'307'200},
                               {"qwen3-32b", 32'762'123'264},
                               {"qwen3-30b-a3b", 30'532'122'624},
                               {"mixtral-8x7b", 46'702'792'704},
                               {"olmoe-1b-7b", 6'919'161'856},
                               {"gemma-2-2b", 2'614'341'888},
                               {"gemma-2-9b", 9'241'705'984},
                               {"gemma-2-27b", 27'227'128'320},
                               {"gemma-3-1b", 999'885'952},
                               {"gemma-3-4b", 3'880'263'168},
                               {"gemma-3-12b", 11'766'034'176},
                               {"gemma-3-27b", 27'009'346'304},
                               {"phi-3-mini-4k", 3'821'079'552},
                               {"phi-3-mini-128k", 3'821'079'552},
                               {"gpt2", 124'439'808},
                               {"gpt2-medium", 354'823'168},
                               {"gpt2-large", 774'030'080},
                               {"gpt2-xl", 1'557'611'200},
                               {"gpt-oss-20b", 20'914'757'184},
                               {"gpt-oss-120b", 116'829'156'672},
                               {"phi-4", 14'659'507'200},
                               {"phi-4-mini", 3'836'021'760},
                               {"phi-1.5", 1'418'270'720},
                               {"phi-2", 2'779'683'840},
                               {"glm-4.5-air", 106'852'251'264},
                               {"glm-4.5", 352'797'829'024},
                               {"deepseek-v2-lite", 15'706'484'224},
                               {"deepseek-v3", 671'026'419'200},
                               {"kimi-k2", 1'026'408'232'448},
                               {"minimax-m2", 228'689'764'864},
                               {"qwen1.5-moe-a2.7b", 14'315'784'192},
                               {"gemma-2b", 2'506'172'416},
                               {"gemma-7b", 8'537'680'896},
                               {"command-r-v01", 34'980'831'232},
                               {"aya-23-8b", 8'028'033'024},
                               {"falcon-7b", 6'921'720'704},
                               {"falcon-40b", 41'303'293'952},
                               {"pythia-70m", 70'426'624},
                               {"pythia-160m", 162'322'944},
                               {"pythia-410m", 405'334'016},
                               {"pythia-1b", 1'011'781'632},
                               {"pythia-1.4b", 1'414'647'808},
                               {"pythia-2.8b", 2'775'208'960},
                               {"pythia-6.9b", 6'857'302'016},
                               {"pythia-12b", 11'846'072'320},
                               {"gpt-j-6b", 6'050'882'784},
                               {"starcoder", 15'517'456'384},
                               {"starcoder2-3b", 3'030'371'328},
                               {"starcoder2-7b", 7'173'923'840},
                               {"opt-125m", 125'239'296},
                               {"opt-1.3b", 1'315'758'080},
                               {"opt-2.7b", 2'651'596'800},
                               {"opt-6.7b", 6'658'473'984},
                               {"bloom-560m", 559'214'592},
                               {"bloom-7b1", 7'069'016'064},
                               {"bloom", 176'247'271'424},
                               {"stablelm-3b-4e1t", 2'795'443'200},
                               {"stablelm-2-1.6b", 1'644'515'328},
                               {"olmo-1b", 1'176'764'416},
                               {"olmo-7b", 6'888'095'744},
                               {"olmo-2-1b", 1'484'916'736},
                               {"olmo-2-7b", 7'298'617'344},
                               {"olmo-2-13b", 13'716'198'400},
                               {"qwen3-next-80b-a3b", 79'674'391'296},
                               {"qwen3.6-35b-a3b", 34'660'610'688},
                               {"qwen3.6-27b", 26'895'998'464},
                               {"granite-3.1-8b", 8'170'848'256},
                               {"smollm3-3b", 3'075'098'624},
                               {"seed-oss-36b", 36'151'104'512}};
  EXPECT_EQ(all.size(), known_models().size());
  for (const Known& known : all) EXPECT_EQ(parameter_count(shape_named(known.name)), known.parameters) << known.name;
}

TEST(Shapes, AllAreSoundAndFoundByTheirOwnName) {
  std::set<std::string> names;
  for (const NamedShape& shape : known_models()) {
    EXPECT_NO_THROW(check_shape(shape.config, shape.name));
    EXPECT_EQ(resolve_shape(shape.name).name, shape.name);
    EXPECT_TRUE(names.insert(shape.name).second) << shape.name;
  }
}

TEST(Shapes, NamesAsPeopleWriteThem) {
  const std::vector<std::pair<const char*, const char*>> spellings{
      {"meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"},
      {"meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"},
      {"LLAMA_3_1_8B", "llama-3.1-8b"},
      {"llama3.1:8b", "llama-3.1-8b"},
      {"llama-3-8b", "llama-3-8b"},
      {"meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"},
      {"TinyLlama/TinyLlama-1.1B-Chat-v1.0", "tinyllama-1.1b"},
      {"mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"},
      {"mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"},
      {"Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b"},
      {"qwen3-0.6b-base", "qwen3-0.6b"},
      {"google/gemma-3-4b-it", "gemma-3-4b"},
      {"gemma2:2b", "gemma-2-2b"},
      {"HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m"},
      {"openai-community/gpt2", "gpt2"},
      {"GPT-2-XL", "gpt2-xl"},
      {"microsoft/Phi-3-mini-4k-instruct", "phi-3-mini-4k"},
      {"openai/gpt-oss-20b", "gpt-oss-20b"},
      {"EleutherAI/gpt-j-6B", "gpt-j-6b"},
      {"bigscience/bloom", "bloom"},
      {"CohereForAI/c4ai-command-r-v01", "command-r-v01"},
      {"zai-org/GLM-4.5-Air", "glm-4.5-air"}};
  for (const auto& [spelling, name] : spellings) EXPECT_EQ(resolve_shape(spelling).name, name) << spelling;
}

std::string error_of(const std::string& model) {
  try {
    resolve_config(model);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Shapes, UnknownNamesGetTheClosest) {
  EXPECT_NE(error_of("lama-3.1-8b").find("llama-3.1-8b"), std::string::npos);
  EXPECT_NE(error_of("qwen-2.5-8b").find("qwen2.5-"), std::string::npos);
  EXPECT_NE(error_of("Llama-3-18B").find("neither"), std::string::npos);  // never the 3.1 8B
  EXPECT_NE(error_of("").find("no model"), std::string::npos);
  EXPECT_NE(error_of("---"), "no error");
  EXPECT_NE(error_of(std::string(100000, 'x')), "no error");
  EXPECT_NE(error_of("./no/such/folder").find("no such file or folder"), std::string::npos);
  EXPECT_NE(error_of(std::string("a\0b", 3)), "no error");
}

TEST(Shapes, WindowsFollowTheFamily) {
  EXPECT_EQ(windows_of(shape_named("mistral-7b-v0.1")), std::vector<std::int64_t>(32, 4096));
  EXPECT_EQ(windows_of(shape_named("mistral-7b-v0.3")), std::vector<std::int64_t>(32, 0));
  const ModelSpec gemma = shape_named("gemma-3-12b");
  EXPECT_EQ(std::ranges::count(windows_of(gemma), 0), 8);
  EXPECT_EQ(shape_named("gemma-2-2b").attention(0).window, 4096);
  EXPECT_EQ(shape_named("gemma-2-2b").attention(1).window, 0);
}

TEST(Shapes, ConstantsThatRunningNeeds) {
  const ModelSpec llama = shape_named("llama-3.2-1b");
  EXPECT_EQ(llama.ropes.at(0).scaling, RopeSpec::Scaling::kLlama3);
  EXPECT_DOUBLE_EQ(llama.ropes.at(0).factor, 32);
  EXPECT_DOUBLE_EQ(llama.ropes.at(0).theta, 500000);
  EXPECT_DOUBLE_EQ(llama.norm_eps, 1e-5);
  EXPECT_TRUE(shape_named("qwen2.5-7b").attention(0).qkv_bias);
  EXPECT_FALSE(shape_named("qwen2.5-7b").attention(0).out_bias);
  EXPECT_EQ(shape_named("gemma-3-4b").ropes.at(0).scaling, RopeSpec::Scaling::kLinear);
  const ModelSpec oss = shape_named("gpt-oss-20b");
  EXPECT_EQ(oss.ropes.at(0).scaling, RopeSpec::Scaling::kYarn);
  EXPECT_TRUE(oss.attention(0).sink_logits);
  EXPECT_EQ(oss.attention(0).window, 128);
  EXPECT_EQ(oss.attention(1).window, 0);
  EXPECT_EQ(shape_named("phi-3-mini-128k").ropes.at(0).other, "longrope without its factors");
}

TEST(Shapes, TheTableAgreesWithTheModelsThatShip) {
  for (const char* name : {"tales", "tales-draft"}) {
    const ModelSpec listed = shape_named(name);
    const ModelSpec stored = load_config(std::filesystem::path(KVASIR_SOURCE_DIR) / "models" / name);
    EXPECT_EQ(parameter_count(listed), parameter_count(stored));
    EXPECT_EQ(listed.context, stored.context);
    EXPECT_EQ(listed.dtype, stored.dtype);
    EXPECT_EQ(listed.layers, stored.layers);
    EXPECT_DOUBLE_EQ(listed.norm_eps, stored.norm_eps);
    EXPECT_DOUBLE_EQ(listed.ropes.at(0).theta, stored.ropes.at(0).theta);
  }
}

TEST(Shapes, GivenShape) {
  const ModelSpec config = parse_shape(
      "layers=16,hidden=2048,ffn=8192,heads=32,kv_heads=8,head_dim=64,vocab=128256,context=4096,tied=1,dtype="
      "f16");
  EXPECT_EQ(parameter_count(config), 1'235'814'400U);
  EXPECT_EQ(config.context, 4096);
  EXPECT_EQ(config.dtype, DType::kF16);
  EXPECT_NO_THROW(check_runnable(config, "shape"));
  const ModelSpec derived = parse_shape("layers=2,hidden=64,ffn=128,heads=4,vocab=100,window=32");
  EXPECT_EQ(derived.attention(0).kv.heads, 4);
  EXPECT_EQ(derived.attention(0).kv.k_dim, 16);
  EXPECT_EQ(derived.dtype, DType::kBF16);
  EXPECT_EQ(windows_of(derived), (std::vector<std::int64_t>{32, 32}));
  EXPECT_EQ(windows_of(parse_shape("layers=4,hidden=64,ffn=128,heads=4,vocab=100,window=32,arch=gemma2")),
            (std::vector<std::int64_t>{32, 0, 32, 0}));
  EXPECT_EQ(parameter_count(parse_shape("gpt2")), 124'439'808U);
}

TEST(Shapes, GivenShapeMalformed) {
  const std::string sizes = "layers=2,hidden=64,ffn=128,heads=4,vocab=100";
  for (const auto& [list, expected] : std::vector<std::pair<std::string, const char*>>{
           {"layers=2", "hidden is missing"},
           {"=", "'' is not a key"},
           {sizes + ",depth=3", "'depth' is not a key"},
           {sizes + ",layers=3", "'layers' is given twice"},
           {sizes + ",tied", "'tied' has no '='"},
           {sizes + ",tied=yes", "tied=yes is not 0 or 1"},
           {sizes + ",dtype=int3", "dtype=int3 is not known"},
           {sizes + ",arch=mamba", "'mamba' is not known"},
           {sizes + ",context=0", "context=0 is not an integer in 1.."},
           {sizes + ",kv_heads=3", "3 KV heads do not divide 4 heads"},
           {sizes + ",head_dim=7", "odd"},
           {"layers=2x,hidden=64", "layers=2x is not an integer"},
           {"layers=99999999999999999999", "is not an integer in 1..4096"},
           {"layers=2,hidden=64,ffn=128,heads=5,vocab=100", "give head_dim"}}) {
    const std::string message = error_of(list);
    EXPECT_NE(message.find(expected), std::string::npos) << list << "\n  gave: " << message;
  }
}

}  // namespace
}  // namespace kvasir
