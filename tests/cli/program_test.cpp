// The program as a user runs it: what it prints where, and its exit codes.
#include "program.h"
#include "support/source_dir.h"

#include <map>
#include <nlohmann/json.hpp>

namespace kvasir::testing {
namespace {

TEST_F(ProgramTest, TheSameTextForEveryIsaThreadCountAndWithoutTheCache) {
  const std::string asked = "run -p 'Once upon a time' -n 100 --temp 0 ";
  const Ran expected = run(asked);
  EXPECT_EQ(expected.code, 0);
  EXPECT_EQ(expected.out.substr(0, 24), ", there lived a princess");
  EXPECT_NE(expected.err.find("prompt 5 tokens"), std::string::npos);
  for (const char* how :
       {"--isa scalar", "--isa auto -t 1", "-t 2", "--no-cache", "--block-size 5", "--max-batch-tokens 2",
        "--draft off", "--draft ngram --draft-tokens 4", "--draft auto,tales-draft --draft-tree 3",
        "--draft tales-draft", "--draft auto,tales-draft"}) {
    EXPECT_EQ(run(asked + how).out, expected.out) << how;
  }
}

TEST_F(ProgramTest, PipedInputIsThePrompt) {
  std::ofstream(folder_ / "prompt") << "Once upon a time\n";
  const Ran piped = run("run -n 10 --temp 0 -q", (folder_ / "prompt").string());
  EXPECT_EQ(piped.out, run("run -p 'Once upon a time' -n 10 --temp 0").out);
  EXPECT_EQ(piped.err, "");
}

TEST_F(ProgramTest, ASeedRepeatsADraw) {
  const std::string asked = "run -p 'Once upon a time' -n 60 --temp 1 --seed ";
  EXPECT_EQ(run(asked + "7").out, run(asked + "7").out);
  EXPECT_NE(run(asked + "7").out, run(asked + "8").out);
}

TEST_F(ProgramTest, AConvertedModelAnswersAsItsFolder) {
  const std::string file = (folder_ / "tales.gguf").string();
  const Ran converted = run("convert -m tales -o " + file + " --weights bf16");
  EXPECT_EQ(converted.code, 0) << converted.err;
  EXPECT_NE(converted.out.find("tales.gguf: 38"), std::string::npos) << converted.out;
  const std::string asked = "run -p 'Once upon a time' -n 40 --temp 0 -q";
  EXPECT_EQ(run(asked + " -m " + file).out, run(asked).out);
  EXPECT_NE(run("plan -m " + file).out.find("18,882,432 parameters, bf16"), std::string::npos);
  expect_refused("convert -m tales -o " + file, 2, "--force");
  expect_refused("convert -m tales -o x.gguf --weights q9", 2, "use f32, f16, bf16, q8_0");
  expect_refused("convert -m tales -o x.gguf --weights q5_k", 2, "read and not written");
  expect_refused("convert -m tales -o " + (folder_ / "none/x.gguf").string(), 1, "cannot be created");
  std::ofstream(folder_ / "cut.gguf", std::ios::binary) << read(file).substr(0, 2'000'000);
  expect_refused("run -p x -m " + (folder_ / "cut.gguf").string(), 1, "outside the file's");
  EXPECT_EQ(run("convert -m tales -o " + file + " --weights q8_0 --force").code, 0);
  EXPECT_NE(run("plan -m " + file).out.find("20.1 MB"), std::string::npos) << run("plan -m " + file).out;
}

TEST_F(ProgramTest, UsageErrorsExitWith2) {
  expect_refused("", 2, "subcommand is required");
  expect_refused("fly", 2, "kvasir --help");
  expect_refused("run -p", 2, "--prompt");
  expect_refused("run -p x --no-such-flag", 2, "--no-such-flag");
  expect_refused("run -p ''", 2, "the prompt is empty");
  expect_refused("run -p x --draft nobody", 2, "there is no model 'nobody'");
  expect_refused("run -p x --draft ngram,,suffix", 2, "names no drafters");
  expect_refused("run -p x --draft tales-draft,tales", 2, "two draft models");
  expect_refused("run -p x --draft-tokens 65", 2, "use 1 to 64");
  expect_refused("run -p x --draft-tree 5", 2, "use 1 to 4");
  expect_refused("run", 2, "the prompt is empty");  // an empty pipe
  expect_refused("run -p x -m no-such-model", 2, "tales");
  expect_refused("run -p x --kv f12", 2, "use one of f32, f16, bf16");
  expect_refused("run -p x --kv f16,sinks=4", 2, "add window=");
  expect_refused("run -p x --isa mmx", 2, "use auto, scalar");
  expect_refused("run -p x --kv-memory lots", 2, "write it like 512MiB");
  expect_refused("run -p x --kv-memory 10", 2, "do not hold one block");
  expect_refused("run -p x -c 1000000", 2, "more than the 2048");
  expect_refused("run -p x --temp -3", 2, "temperature is -3");
  expect_refused("bench -n 0", 2, "positive");
}

TEST_F(ProgramTest, BadInputExitsWith1) {
  std::string endless = "'";
  for (int i = 0; i < 3000; ++i) endless += " word";
  expect_refused("run -p " + endless + "'", 1, "the context holds 2048");
  expect_refused("run -p x -m " + folder_.string(), 1, "config.json");
  const auto cut = [](const std::string& text) { return text.substr(0, text.size() / 2); };
  expect_refused("run -p x -m " + damaged("model.safetensors", cut), 1, "damaged or cut off");
  expect_refused("run -p x -m " + damaged("config.json", cut), 1, "config.json");
  expect_refused("run -p x -m " + damaged("tokenizer.json", cut), 1, "tokenizer.json");
  expect_refused("run -p x -m " + damaged("model.safetensors", [](const std::string&) { return ""; }), 1,
                 "the file is empty");
  const auto flipped = [](std::string text) { return text.replace(4, 1, "\xff"); };
  expect_refused("run -p x -m " + damaged("model.safetensors", flipped), 1, "header claims");
  const auto other_dtype = [](std::string text) { return text.replace(text.find("BF16"), 4, "I16\""); };
  EXPECT_EQ(run("run -p x -m " + damaged("model.safetensors", other_dtype)).code, 1);
}

TEST_F(ProgramTest, SynthWritesAModelThatRuns) {
  const std::string out = (folder_ / "synthetic").string();
  const Ran synth = run("synth --shape layers=2,hidden=64,ffn=96,heads=4,kv_heads=2,vocab=300 --out " + out);
  EXPECT_EQ(synth.code, 0) << synth.err;
  const Ran bench = run("bench -m " + out + " -p 16 -n 8 -d 0,32 -r 2 --json");
  ASSERT_EQ(bench.code, 0) << bench.err;
  const auto report = nlohmann::json::parse(bench.out);
  EXPECT_EQ(report["results"].size(), 4U);
  const auto& prefill = report["results"][0];
  EXPECT_GT(prefill["tokens_per_second"].get<double>(), 0);
  // A yardstick stands before and after every repeat.
  EXPECT_EQ(prefill["flops_per_second_readings"].size(), 3U);
  EXPECT_EQ(prefill["shares"].size(), 2U);
  EXPECT_GE(prefill["share"]["most"], prefill["share"]["median"]);
  EXPECT_GT(prefill["share"]["least"].get<double>(), 0);
  EXPECT_EQ(report["results"][1]["read_bytes_per_second_readings"].size(), 3U);
  const Ran batches = run("bench -m " + out + " -n 4 -d 300 -b 1,3 --shared-prefix -r 1 --json");
  ASSERT_EQ(batches.code, 0) << batches.err;
  const auto batched = nlohmann::json::parse(batches.out)["results"];
  ASSERT_EQ(batched.size(), 2U);
  EXPECT_EQ(batched[1]["batch"], 3);
  EXPECT_LT(batched[1]["bytes_per_token"], batched[0]["bytes_per_token"]);  // three share weights and prefix
  expect_refused("bench -b 0 -m " + out, 2, "counts are positive");
  const Ran versus =
      run("bench -m " + out + " -n 4 -d 40,90 -r 3 --kv f16 --versus int8 --versus 'f16, window=32, sinks=4' --json");
  ASSERT_EQ(versus.code, 0) << versus.err;
  const auto turns = nlohmann::json::parse(versus.out).at("turns");
  ASSERT_EQ(turns.size(), 6U);
  EXPECT_EQ(turns[0].at("policy"), "f16");
  EXPECT_EQ(turns[0].at("times_first"), 1.0);
  EXPECT_EQ(turns[5].at("policy"), "f16, window=32, sinks=4");
  EXPECT_EQ(turns[5].at("depth"), 90);
  for (const auto& turn : turns) {
    EXPECT_EQ(turn.at("seconds").size(), 3U);
    std::vector<double> ratios;
    for (size_t i = 0; i < 3; ++i) {
      const auto& first = turns[turn.at("depth") == 40 ? 0 : 3].at("seconds");
      ratios.push_back(first[i].get<double>() / turn.at("seconds")[i].get<double>());
    }
    std::ranges::sort(ratios);
    EXPECT_NEAR(turn.at("times_first").get<double>(), ratios[1], 1e-9 * ratios[1]);
    EXPECT_GT(turn.at("tokens_per_second"), 0.0);
  }
  const std::string two = "bench -m " + out + " --versus int8 ";
  EXPECT_NE(run(two + "-n 2 -r 1").out.find("times first"), std::string::npos);
  expect_refused(two + "-b 1,4", 2, "one sequence");
  expect_refused(two + "-n 0", 2, "positive");
  expect_refused("bench --versus nonsense -m " + out, 2, "--versus");
  const Ran profile = run("bench --profile -m " + out + " -n 5 -d 20 --json");
  ASSERT_EQ(profile.code, 0) << profile.err;
  const auto step = nlohmann::json::parse(profile.out);
  EXPECT_EQ(step["steps"], 5);
  double seconds = 0;
  std::map<std::string, double> calls;
  for (const auto& op : step["ops"]) {
    seconds += op["seconds_per_step"].get<double>();
    calls[op["op"]] = op["calls_per_step"].get<double>();
  }
  EXPECT_NEAR(seconds, step["seconds_per_step"].get<double>(), 1e-9);  // everything is accounted for
  EXPECT_EQ(calls["attention"], 2);
  EXPECT_EQ(calls["matmul 192 x 64"], 2);
  expect_refused("synth --out " + out + "2", 2, "give --shape or --config");
  expect_refused("synth --config no-such-file --out " + out + "2", 1, "no-such-file");
  const std::string config = (source_dir() / "tests/model/fixtures/qwen3_moe/config.json").string();
  const Ran of_config = run("synth --config " + config + " --out " + out + "3");
  EXPECT_EQ(of_config.code, 0) << of_config.err;
  EXPECT_NE(of_config.out.find("parameters"), std::string::npos) << of_config.out;
  expect_refused("synth --shape no-such-model --out " + out + "2", 2, "no-such-model");
  expect_refused("synth --shape layers=1,hidden=8,ffn=8,heads=2,vocab=9 --out " + out, 1, "a model in it already");
}

TEST_F(ProgramTest, WeightsInEightBitsAreForGpus) {
  for (const char* form : {"int8", "fp8"}) {
    const std::string weights = "--weights " + std::string(form);
    for (const char* command : {"run -p hello -n 2 ", "bench -n 2 ", "serve "}) {
      expect_refused(command + weights + " --device cpu", 2, "kvasir convert -o model.gguf --weights q8_0");
    }
    const Ran ran = run("run -m tales-draft -p hello -n 4 --temp 0 --device ref " + weights);  // the oracle has them
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_FALSE(ran.out.empty());
  }
  expect_refused("run -p hello --weights int4", 2, "use as-stored, int8 or fp8");
  EXPECT_EQ(run("run -m tales-draft -p hello -n 4 --temp 0 --weights as-stored").out,
            run("run -m tales-draft -p hello -n 4 --temp 0").out);
}

TEST_F(ProgramTest, BenchMakesWeightsAndLoads) {
  const std::string shape = "--shape layers=2,hidden=64,ffn=96,heads=4,kv_heads=2,vocab=300 --device cpu ";
  const Ran ran =
      run("bench " + shape + "--weights f16 -n 4 -r 2 --requests 5 --prompt 40 --generate 9 --hit 64 --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto report = nlohmann::json::parse(ran.out);
  EXPECT_EQ(report["results"].size(), 1U);
  const auto& load = report["load"];
  EXPECT_EQ(load["requests"], 5);
  EXPECT_NEAR(load["output_tokens_per_second"].get<double>() * load["seconds"].get<double>(), 45, 1e-6);
  EXPECT_EQ(load["runs"], 2);
  EXPECT_EQ(load["decode_steps"], 2 * 8);  // the prompts fit one step, which brings the first tokens
  EXPECT_GT(load["host_seconds"]["p50"].get<double>(), 0);
  EXPECT_GE(load["step_seconds"]["p50"], load["host_seconds"]["p50"]);
  EXPECT_GE(load["first_token_seconds"]["p99"], load["first_token_seconds"]["p50"]);
  EXPECT_GT(report["hit"]["first_token_seconds"].get<double>(), 0);
  const Ran table = run("bench " + shape + "-r 1 --requests 3 --prompt 20 --generate 4");
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("3 requests of 20 + 4 tokens"), std::string::npos) << table.out;
  EXPECT_EQ(table.out.find("prefill"), std::string::npos) << table.out;  // nobody asked for it
  expect_refused("bench " + shape + "-m tales", 2, "a model and a shape");
  expect_refused("bench " + shape + "--weights q4_0", 2, "bf16, f16 or f32");
  expect_refused("bench --weights f16", 2, "--shape");
  expect_refused("bench " + shape + "--weights int8", 2, "as they are stored, and not as int8");
  expect_refused("bench --shape no-such-model", 2, "no-such-model");
  expect_refused("bench " + shape + "--requests -1", 2, "requests");
}

TEST_F(ProgramTest, PlanKnowsTheEightBillionModel) {
  const auto plan = nlohmann::json::parse(run("plan -m llama-3.1-8b -c 65536 --memory 24GB --json").out);
  EXPECT_EQ(plan["kv"]["bytes_per_token"], 131072);
  EXPECT_EQ(plan["weights_bytes"], 16060522496);
  EXPECT_EQ(plan["fits"], false);
  EXPECT_FALSE(plan["ways_out"].empty());
  const auto shorter = nlohmann::json::parse(run("plan -m llama-3.1-8b -c 32768 --memory 24GB --json").out);
  EXPECT_EQ(shorter["kv"]["bytes_total"], 4294967296);
  EXPECT_EQ(shorter["fits"], true);
}

TEST_F(ProgramTest, HelpAndVersionGoToStdout) {
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_NE(run("run --help").out.find("--kv"), std::string::npos);
  EXPECT_EQ(run("--version").out.substr(0, 7), "kvasir ");
}

}  // namespace
}  // namespace kvasir::testing
