#include "model/known_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
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
std::vector<Known> published() {
  return {{"tales", 18'882'432},
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
          {"nemotron-3-nano-30b-a3b", 31'577'940'288},
          {"kimi-linear-48b-a3b", 49'122'681'728},
          {"qwen3.6-35b-a3b", 34'660'610'688},
          {"qwen3.6-27b", 26'895'998'464},
          {"granite-3.1-8b", 8'170'848'256},
          {"smollm3-3b", 3'075'098'624},
          {"llama-7b", 6'738'415'616},
          {"llama-13b", 13'015'864'320},
          {"llama-30b", 32'528'943'616},
          {"llama-65b", 65'285'660'672},
          {"codellama-7b", 6'738'546'688},
          {"codellama-13b", 13'016'028'160},
          {"codellama-34b", 33'743'970'304},
          {"codellama-70b", 68'976'910'336},
          {"open-llama-3b", 3'426'473'600},
          {"yi-6b", 6'061'035'520},
          {"yi-9b", 8'829'407'232},
          {"yi-34b", 34'388'917'248},
          {"deepseek-llm-7b", 6'910'365'696},
          {"deepseek-coder-1.3b", 1'346'471'936},
          {"deepseek-coder-6.7b", 6'740'512'768},
          {"deepseek-coder-33b", 33'342'991'360},
          {"solar-10.7b", 10'731'524'096},
          {"falcon3-1b", 1'669'408'768},
          {"falcon3-3b", 3'227'655'168},
          {"falcon3-7b", 7'455'550'464},
          {"falcon3-10b", 10'305'653'760},
          {"codestral-22b", 22'247'282'688},
          {"mistral-small-24b", 23'572'403'200},
          {"mistral-large-123b", 122'610'069'504},
          {"qwen1.5-0.5b", 463'987'712},
          {"qwen1.5-1.8b", 1'836'828'672},
          {"qwen1.5-4b", 3'950'369'280},
          {"qwen1.5-7b", 7'721'324'544},
          {"qwen1.5-14b", 14'167'290'880},
          {"qwen1.5-32b", 32'512'218'112},
          {"qwen1.5-72b", 72'287'920'128},
          {"qwen1.5-110b", 111'209'914'368},
          {"deepseek-r1-distill-qwen-1.5b", 1'777'088'000},
          {"qwen3-235b-a22b", 235'093'634'560},
          {"qwen3-coder-480b-a35b", 480'154'875'392},
          {"mixtral-8x22b", 140'630'071'296},
          {"gemma-3-270m", 268'098'176},
          {"phi-3-medium-4k", 13'960'238'080},
          {"distilgpt2", 81'912'576},
          {"falcon-rw-1b", 1'311'625'216},
          {"olmo-2-32b", 32'234'279'936},
          {"olmo-3-7b", 7'298'011'136},
          {"granite-3.1-2b", 2'533'531'648},
          {"command-r-plus", 103'810'674'688},
          {"command-r-08-2024", 32'296'476'672},
          {"command-r7b", 8'028'033'024},
          {"command-a", 111'057'580'032},
          {"deepseek-v2", 235'741'434'880},
          {"glm-4-9b-0414", 9'400'279'040},
          {"ernie-4.5-0.3b", 360'748'032},
          {"lfm2-350m", 354'483'968},
          {"lfm2-700m", 742'489'344},
          {"lfm2-1.2b", 1'170'340'608},
          {"starcoder2-15b", 15'957'889'024},
          {"starcoderbase-1b", 1'137'207'296},
          {"santacoder", 1'124'886'528},
          {"pythia-14m", 14'067'712},
          {"pythia-31m", 30'494'720},
          {"gpt-neox-20b", 20'554'567'680},
          {"redpajama-incite-3b", 2'775'864'320},
          {"opt-350m", 331'196'416},
          {"opt-13b", 12'853'473'280},
          {"opt-30b", 29'974'540'288},
          {"bloom-1b1", 1'065'314'304},
          {"bloom-1b7", 1'722'408'960},
          {"bloom-3b", 3'002'557'440},
          {"qwen3-embedding-0.6b", 595'776'512},
          {"qwen3-embedding-4b", 4'021'774'336},
          {"qwen3-embedding-8b", 7'567'295'488},
          {"seed-oss-36b", 36'151'104'512},
          {"t5-base", 222'903'552},
          {"flan-t5-xl", 2'849'757'184},
          {"bart-large", 406'341'721}};
}

TEST(Shapes, ParameterCounts) {
  for (const Known& known : published())
    EXPECT_EQ(parameter_count(shape_named(known.name)), known.parameters) << known.name;
}

// The others are about as large as their names say, which round.
TEST(Shapes, SizesInNames) {
  const std::regex size("(^|[-.])([0-9]+(\\.[0-9]+)?)(b|m)($|-)");
  std::set<std::string> exact;
  for (const Known& known : published()) exact.insert(known.name);
  int checked = 0;
  for (const NamedShape& shape : known_models()) {
    std::smatch found;
    if (exact.contains(shape.name) || !std::regex_search(shape.name, found, size)) continue;
    const double said = std::stod(found[2]) * (found[4] == "b" ? 1e9 : 1e6);
    const auto counted = static_cast<double>(parameter_count(shape.config));
    EXPECT_NEAR(counted / said, 1, 0.35) << shape.name << ": " << counted;
    ++checked;
  }
  EXPECT_GT(checked, 30);
  EXPECT_GE(known_models().size(), 200U);
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
