// kvasir tune as a user runs it, and its policy file in the hands of others.
#include <nlohmann/json.hpp>

#include "program.h"

namespace kvasir::testing {
namespace {

class TuneProgramTest : public ProgramTest {
 protected:
  const std::string text_ = " --text " KVASIR_SOURCE_DIR "/models/held-out.txt --ctx 64 ";
  const std::string small_ = "tune -m tales-draft -t 1 --tokens 126 --recent 0,16" + text_;
};

TEST_F(TuneProgramTest, WritesAPolicyThatEveryCommandTakes) {
  const std::string policy = (folder_ / "mix.policy").string();
  const std::string svg = (folder_ / "plot.svg").string();
  const Ran ran = run(small_ + "--bits 4 -o " + policy + " --svg " + svg);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");  // no bar: it is not a terminal
  for (const char* word : {"layer", "K int4", "V head 0", "the last 16 tokens in int8", "chosen: ", "top-1",
                           "the text's second half, which tuning did not see"}) {
    EXPECT_NE(ran.out.find(word), std::string::npos) << word << "\n" << ran.out;
  }
  EXPECT_EQ(read(svg).substr(0, 5), "<svg ");
  const size_t chosen = ran.out.find("chosen: ") + 8;
  const std::string text = ran.out.substr(chosen, ran.out.find('\n', chosen) - chosen);
  EXPECT_NE(read(policy).find("\n" + text + "\n"), std::string::npos) << read(policy);

  const Ran eval = run("eval -m tales-draft -t 1 --needles 0 --tokens 70 --kv @" + policy + text_);
  EXPECT_EQ(eval.code, 0) << eval.err;
  EXPECT_NE(eval.out.find(text), std::string::npos) << eval.out;
  const Ran plan = run("plan -m tales-draft --json --kv @" + policy);
  EXPECT_EQ(nlohmann::json::parse(plan.out)["kv"]["policy"], text);
  EXPECT_EQ(run("run -m tales-draft -t 1 -p Once -n 4 --kv @" + policy).code, 0);
  EXPECT_EQ(run("run -m tales-draft -t 1 -p Once -n 4 --kv @" + policy + ".none").code, 1);
  EXPECT_EQ(run("run -m tales-draft -t 1 -p Once -n 4 --kv 'int4, 2:int8'").code, 2);  // it has layers 0 and 1
}

TEST_F(TuneProgramTest, JsonHasItAllAndGoesOnFromWhatIsMeasured) {
  const std::string asked = small_ + "--bits 3.5 --json --resume " + (folder_ / "kept.json").string();
  const Ran ran = run(asked);
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["sensitivity"].size(), 2U);
  EXPECT_EQ(json["sensitivity"][1]["recent"], 16);
  EXPECT_EQ(json["sensitivity"][0]["layers"].size(), 2U);
  EXPECT_GT(json["sensitivity"][0]["layers"][1]["V"]["int2"], json["sensitivity"][0]["layers"][1]["V"]["int8"]);
  EXPECT_EQ(json["heads"]["layers"][0]["K"].size(), 1U);
  EXPECT_LE(json["chosen"]["bits"], 3.5 + 1e-9);
  EXPECT_GT(json["front"].size(), 5U);
  EXPECT_EQ(json["judged"]["policies"].back()["policy"], json["chosen"]["policy"]);
  EXPECT_EQ(run(asked).out, ran.out);
}

TEST_F(TuneProgramTest, WhatMakesNoSenseIsRefused) {
  for (const char* wrong : {"--bits 1.5", "--recent 64", "--recent -1", "--formats int9", "--heads f17",
                            "--tokens -1", "--ctx 100000", "--text /nowhere"}) {
    const Ran ran = run(small_ + wrong);
    EXPECT_NE(ran.code, 0) << wrong;
    EXPECT_NE(ran.err.find("kvasir: "), std::string::npos) << wrong;
  }
}

}  // namespace
}  // namespace kvasir::testing
