// kvasir eval as a user runs it.
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "program.h"

namespace kvasir::testing {
namespace {

class EvalProgramTest : public ProgramTest {
 protected:
  const std::string small_ = "eval -m tales-draft -t 1 --text " KVASIR_SOURCE_DIR "/models/held-out.txt --ctx 128 ";
};

TEST_F(EvalProgramTest, PrintsATableAndWritesAPlot) {
  const std::string svg = (folder_ / "plot.svg").string();
  const Ran ran = run(small_ + "--tokens 300 --kv bf16 --kv 'f16, window=32, sinks=4' --needles 1 --svg " + svg);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");  // no bar: it is not a terminal
  for (const char* word : {"300 tokens of held-out.txt judged, in 3 windows of 128", "f16, window=32, sinks=4",
                           "by chance 10%", "perplexity"}) {
    EXPECT_NE(ran.out.find(word), std::string::npos) << word << "\n" << ran.out;
  }
  EXPECT_EQ(read(svg).substr(0, 5), "<svg ");
}

TEST_F(EvalProgramTest, JsonHasTheNumbersOfEveryPolicy) {
  const auto json = nlohmann::json::parse(run(small_ + "--tokens 300 --needles 0 --kv f16 --speed 64 --json").out);
  EXPECT_EQ(json["judged_tokens"], 300);
  ASSERT_EQ(json["policies"].size(), 2U);
  const auto& f32 = json["policies"][0];
  const auto& f16 = json["policies"][1];
  EXPECT_EQ(f32["policy"], "f32");
  EXPECT_EQ(f32["kl"]["max"], 0.0);
  EXPECT_EQ(f32["same_top1"], 1.0);
  EXPECT_EQ(f32["bytes_per_token"], 1024.0);
  EXPECT_EQ(f16["bytes_per_token"], 512.0);
  EXPECT_EQ(f16["compression_against_f16"], 1.0);
  EXPECT_GT(f16["kl"]["mean"], 0.0);
  EXPECT_GE(f16["kl"]["p99"], f16["kl"]["mean"]);
  EXPECT_GT(f16["decode"][0]["tokens_per_second"], 0.0);
  EXPECT_EQ(run(small_ + "--tokens 300 --json -t 2 --max-batch-tokens 16 --kv bf16").code,
            2);  // not an option of eval
}

TEST_F(EvalProgramTest, ARunThatWasKilledGoesOnAndPrintsTheSame) {
  const std::string asked = small_ + "--tokens 3000 --needles 0 --kv f16 --kv bf16 --json ";
  const auto kept = folder_ / "kept.json";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string command = std::string("exec ") + KVASIR_PROGRAM + " " + asked + "--resume " + kept.string();
    ::execl("/bin/sh", "sh", "-c", (command + " >/dev/null").c_str(), nullptr);
    ::_exit(1);
  }
  int status = 0;
  while (!std::filesystem::exists(kept)) {
    ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0) << "it ended by itself";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  const auto windows = nlohmann::json::parse(read(kept))["policies"]["f16"]["windows"].get<int>();
  EXPECT_GE(windows, 1);
  EXPECT_LT(windows, 24) << "it was killed too late to show anything";
  const Ran resumed = run(asked + "--resume " + kept.string());
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.out, run(asked).out);
}

TEST_F(EvalProgramTest, AStreamGoesOnBeyondTheModelsContext) {
  const std::string svg = (folder_ / "plot.svg").string();
  const Ran ran = run("eval -m tales-draft -t 1 --text " KVASIR_SOURCE_DIR
                      "/models/held-out.txt --stream 3000 --json --kv 'f16, window=64' --svg " +
                      svg);
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["policies"][0]["policy"], "f16, window=64");
  EXPECT_EQ(json["policies"][0]["segments"][0]["end"], 3000);
  EXPECT_EQ(read(svg).substr(0, 5), "<svg ");
}

TEST_F(EvalProgramTest, WhatIsWrongIsSaidInOneLine) {
  const std::string text = "--text " KVASIR_SOURCE_DIR "/models/held-out.txt ";
  expect_refused("eval", 2, "--text");
  expect_refused("eval --text " + (folder_ / "none").string(), 1, "none");
  expect_refused("eval " + text + "--kv f17", 2, "f17");
  expect_refused("eval " + text + "--ctx 4096", 2, "trained for 2048");
  expect_refused("eval " + text + "--ctx 2", 2, "no token to judge");
  expect_refused("eval " + text + "--ctx 128 --stride 200", 2, "--stride");
  expect_refused("eval " + text + "--ctx 30", 2, "--needles 0");
  expect_refused("eval " + text + "--needle-candidates 1", 2, "no choice");
  expect_refused("eval " + text + "--tokens -1", 2, "--tokens");
  expect_refused("eval " + text + "--speed -5", 2, "--speed");
  expect_refused("eval " + text + "--speed 4000", 2, "--speed");
  expect_refused("eval " + text + "--stream 3000 --kv f16", 2, "give it a window");
  expect_refused("eval " + text + "--stream 3000 --kv 'f16, window=2046, sinks=4'", 2, "at most 2048");
  expect_refused("eval " + text + "--stream 1", 2, "no stream");
  std::ofstream(folder_ / "kept.json") << "{}";
  expect_refused(small_ + "--resume " + (folder_ / "kept.json").string(), 1, "not what an evaluation wrote");
  expect_refused(small_ + "--tokens 100 --needles 0 --kv f16 --svg " + (folder_ / "none/x.svg").string(), 1,
                 "cannot be written");
}

}  // namespace
}  // namespace kvasir::testing
