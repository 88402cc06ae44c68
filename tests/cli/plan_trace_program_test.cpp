// kvasir serve --trace and kvasir plan --trace, as somebody uses them.
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "child.h"
#include "cli/client/http_client.h"
#include "program.h"

namespace kvasir::testing {
namespace {

class PlanTraceTest : public ProgramTest {
 protected:
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  // A small load on the small model, and the trace of it.
  std::string recorded() {
    Child server({KVASIR_PROGRAM, "serve", "--port", "0", "-m", KVASIR_SOURCE_DIR "/models/tales-draft",
                  "--kv-memory", "2MB", "--trace", file("trace")},
                 file("err"));
    const std::string said = server.said("try:");
    const size_t at = said.find("http://");
    HttpClient client(parse_url(said.substr(at, said.find_first_of(" \"\n", at) - at)));
    const std::string prompt =
        "Once upon a time there was a fox who lived near the old river, and every morning she went to look for "
        "apples in the garden of a king who had none left, until one day she found a letter under the door.";
    for (int i = 0; i < 6; ++i) {
      const auto answer =
          client.post("/v1/completions", "",
                      R"({"temperature":0,"prompt":")" + prompt + R"(","max_tokens":)" + std::to_string(4 + i) + "}");
      EXPECT_EQ(answer.status, 200) << answer.body;
      // A replay asks when they were asked. None may come while another runs, though steps are foretold to be slow.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    EXPECT_EQ(server.end(), 0);
    return file("trace");
  }
};

TEST_F(PlanTraceTest, ARecordedTraceIsAskedAgain) {
  const std::string trace = recorded();
  const Ran text = run("plan --trace " + trace);
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* word : {"6 requests", "foretold", "measured", "error", "hit rate", "first token, 95%"}) {
    EXPECT_NE(text.out.find(word), std::string::npos) << word << "\n" << text.out;
  }
  const Ran json = run("plan --json --trace " + trace);
  ASSERT_EQ(json.code, 0) << json.err;
  const auto told = nlohmann::json::parse(json.out);
  EXPECT_EQ(told["foretold"]["requests"], 6);
  EXPECT_EQ(told["measured"]["requests"], 6);
  EXPECT_LT(std::abs(told["error"]["hit_rate"].get<double>()), 0.02);
  EXPECT_EQ(told["engine"]["kv_bytes"], 2'000'000);
  const Ran markdown = run("plan --markdown --trace " + trace);
  EXPECT_NE(markdown.out.find("| hit rate |"), std::string::npos) << markdown.out;
}

TEST_F(PlanTraceTest, OtherMemoryAndOtherPoliciesAreForetold) {
  const std::string trace = recorded();
  const auto foretold = [&](const std::string& options) {
    const Ran ran = run("plan --json --trace " + trace + " " + options);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return nlohmann::json::parse(ran.out);
  };
  const auto plain = foretold("");
  const auto smaller = foretold("--kv-memory 200kB");
  EXPECT_LT(smaller["foretold"]["pool_bytes"], plain["foretold"]["pool_bytes"]);
  EXPECT_EQ(smaller["as_recorded"]["reused_tokens"], plain["foretold"]["reused_tokens"]);  // beside the prediction
  EXPECT_FALSE(smaller["error"].is_null());
  EXPECT_EQ(foretold("--kv int8")["engine"]["kv"], "int8");
  const Ran swept = run("plan --trace " + trace + " --sweep kv-memory=200kB..2MB --svg " + file("curve.svg"));
  EXPECT_EQ(swept.code, 0) << swept.err;
  EXPECT_NE(swept.out.find("kv-memory"), std::string::npos);
  const std::string svg = read(file("curve.svg"));
  EXPECT_TRUE(svg.starts_with("<svg")) << svg.substr(0, 100);
  EXPECT_NE(svg.find("Time to first token"), std::string::npos);
  const auto eviction = foretold("--sweep eviction=lru,fifo,cost");
  EXPECT_EQ(eviction["sweep"]["points"].size(), 3U);
  EXPECT_EQ(eviction["sweep"]["points"][1]["value"], "fifo");
}

TEST_F(PlanTraceTest, PublicTracesNeedCostsAndMemory) {
  std::ofstream(file("azure.csv")) << "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                   << "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n";
  const std::string azure = "plan -m tales --trace " + file("azure.csv");
  expect_refused(azure, 2, "--costs");
  const std::string costs = " --costs " + recorded();
  expect_refused(azure + costs, 2, "--kv-memory");
  const Ran ran = run(azure + costs + " --kv-memory 100MB --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto told = nlohmann::json::parse(ran.out);
  EXPECT_EQ(told["foretold"]["prompt_tokens"], 770);
  EXPECT_EQ(told["foretold"]["answer_tokens"], 153);
  EXPECT_TRUE(told["error"].is_null());
  const Ran sweep =
      run(azure + costs + " --kv-memory 9MB --sweep memory=10MB..1GB");  // the first do not hold the weights
  EXPECT_EQ(sweep.code, 0) << sweep.err;
  EXPECT_NE(sweep.out.find("do not hold the weights"), std::string::npos) << sweep.out;
}

TEST_F(PlanTraceTest, WhatMakesNoSenseIsRefused) {
  const std::string trace = recorded();
  expect_refused("plan --trace " + file("nonesuch"), 1, "cannot be read");
  expect_refused("plan --trace " + trace + " --users 4", 2, "--users");
  expect_refused("plan --trace " + trace + " --sweep colour=red", 2, "cannot be swept");
  expect_refused("plan --trace " + trace + " --sweep memory=8G..1G", 2, "not more than");
  expect_refused("plan --trace " + trace + " --sweep rate=-1", 2, "how many times");
  expect_refused("plan --trace " + trace + " --eviction never", 2, "never");
  expect_refused("plan --trace " + trace + " --svg x.svg", 2, "--svg");
  expect_refused("plan -m tales --sweep memory=1G..2G", 2, "--trace");
  expect_refused("serve --port 0 --trace " + folder_.string(), 2, "trace cannot be opened");
}

}  // namespace
}  // namespace kvasir::testing
