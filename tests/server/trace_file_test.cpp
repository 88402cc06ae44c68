// kvasir serve --trace: what it says, what it keeps to itself, and that nothing that befalls it befalls those who are
// served.
#include "server/trace_file.h"

#include <fstream>
#include <random>

#include "server/test_server.h"
#include "trace/read_trace.h"
#include "trace/replay.h"

namespace kvasir::testing {
namespace {

class TraceFileTest : public ::testing::Test {
 protected:
  TraceFileTest() { std::filesystem::create_directories(folder_); }
  ~TraceFileTest() override { std::filesystem::remove_all(folder_); }

  TraceFile::Options to(const std::filesystem::path& file) const { return {file, "tales-draft", "cpu"}; }
  static std::string all_of(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  static std::string completion(const std::string& prompt, int tokens) {
    return to_text(OrderedJson{{"prompt", prompt}, {"max_tokens", tokens}, {"temperature", 0}});
  }
  static double number_in(const std::string& page, const std::string& name) {
    const size_t at = page.find("\n" + name + "{");
    EXPECT_NE(at, std::string::npos) << name;
    return std::stod(page.substr(page.find("} ", at) + 2));
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvasir_trace_" + std::to_string(::getpid()));
  std::filesystem::path file_ = folder_ / "trace.jsonl";
};

TEST_F(TraceFileTest, SaysWhatWasAskedAndNoText) {
  {
    LoadedModel model(draft_options());
    TraceFile trace(model.engine, to(file_));
    const TestServer server(model);
    const std::string prompt = "Mirabelle Quince lived at 17 Thistle Lane and told nobody";
    const Reply first = server.ask("POST", "/v1/completions", completion(prompt, 12));
    ASSERT_EQ(first.status, 200);
    ASSERT_EQ(server.ask("POST", "/v1/completions", completion(prompt + " about the cat", 5)).status, 200);
    EXPECT_EQ(trace.dropped(), 0);
  }
  const std::string text = all_of(file_);
  for (const char* word : {"Mirabelle", "Quince", "Thistle", "cat", "everybody"}) {
    EXPECT_EQ(text.find(word), std::string::npos) << word;
  }
  const RequestTrace trace = read_trace(std::array{file_});
  ASSERT_EQ(trace.requests.size(), 2U);
  EXPECT_EQ(trace.config->model, "tales-draft");
  EXPECT_FALSE(trace.costs.empty());
  const std::vector<TokenId> a = tokens_of(trace.requests[0], 0);
  const std::vector<TokenId> b = tokens_of(trace.requests[1], 1);
  const auto common = std::ranges::mismatch(a, b).in1 - a.begin();
  EXPECT_GE(common, trace.requests[0].prompt_tokens - 1);
  EXPECT_GT(trace.requests[1].measured->reused_tokens, 0);
  EXPECT_LE(trace.requests[1].measured->reused_tokens, common);
  EXPECT_GT(trace.requests[0].measured->first_token_seconds, 0);
  EXPECT_GT(trace.requests[0].measured->seconds, trace.requests[0].measured->first_token_seconds);
}

// The secret is of the process: the same text has other tags in the next.
TEST_F(TraceFileTest, TwoServersSayNothingOfEachOther) {
  std::vector<std::vector<TokenId>> texts;
  for (int i = 0; i < 2; ++i) {
    const auto file = folder_ / std::to_string(i);
    {
      LoadedModel model(draft_options());
      TraceFile trace(model.engine, to(file));
      const TestServer server(model);
      ASSERT_EQ(server.ask("POST", "/v1/completions", completion("Once upon a time there was a fox", 4)).status, 200);
    }
    texts.push_back(tokens_of(read_trace(std::array{file}).requests.at(0), 0));
  }
  EXPECT_LT(std::ranges::mismatch(texts[0], texts[1]).in1 - texts[0].begin(), 3);
}

TEST_F(TraceFileTest, AFullDiskCostsLinesOnly) {
  LoadedModel model(draft_options());
  TraceFile trace(model.engine, to("/dev/full"));
  const TestServer server(model);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(server.ask("POST", "/v1/completions", completion("a fox " + std::to_string(i), 3)).status, 200);
  }
  for (int i = 0; i < 1000 && trace.dropped() < 5; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_GE(trace.dropped(), 5);
}

TEST_F(TraceFileTest, EachFileBeginsWithTheConfiguration) {
  {
    LoadedModel model(draft_options());
    TraceFile trace(model.engine, to(file_));
    const TestServer server(model);
    const auto ask = [&] {
      EXPECT_EQ(server.ask("POST", "/v1/completions", completion("Once upon a time there was a fox", 4)).status, 200);
    };
    ask();
    for (int i = 0; i < 1000 && all_of(file_).find("\"tags\"") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::filesystem::rename(file_, folder_ / "old");
    trace.reopen();
    for (int i = 0; i < 1000 && !std::filesystem::exists(file_); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ask();
  }
  EXPECT_EQ(read_trace(std::array{folder_ / "old"}).requests.size(), 1U);
  EXPECT_EQ(read_trace(std::array{file_}).requests.size(), 1U);
  const RequestTrace both = read_trace(std::array{folder_ / "old", file_});
  ASSERT_EQ(both.requests.size(), 2U);
  EXPECT_EQ(tokens_of(both.requests[0], 0), tokens_of(both.requests[1], 1));
}

TEST_F(TraceFileTest, AFileThatCannotBeOpenedIsAnError) {
  LoadedModel model(draft_options());
  EXPECT_THROW(TraceFile(model.engine, to(folder_)), Error);
}

// Whatever was asked, one after the other: a replay of what was recorded says what the server's own metrics say, and
// finds what was found. Where many ask at once it depends on the machine who comes first, and bench/replay_error.py
// measures how far off a replay is.
TEST_F(TraceFileTest, AReplayAgreesWithTheServersOwnMetrics) {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    std::filesystem::remove(file_);
    std::string page;
    ModelSpec spec;
    {
      LlmOptions options = draft_options();
      options.kv_bytes = seed == 2 ? 500'000 : 4'000'000;  // for some 800 tokens, or as many as come
      LoadedModel model(options);
      spec = model.model->config();
      TraceFile trace(model.engine, to(file_));
      const TestServer server(model);
      std::mt19937 random(seed);
      std::vector<std::string> texts;
      for (int i = 0; i < 6; ++i) {
        texts.push_back("This is a tale of number " + std::to_string(i % 3) + ". Once upon a time");
      }
      for (size_t i = 0; i < 48; ++i) {
        std::string& text = texts[i % texts.size()];
        const int tokens = 5 + static_cast<int>(random() % 40);
        const Reply reply = server.ask("POST", "/v1/completions", completion(text, tokens));
        EXPECT_EQ(reply.status, 200) << reply.body;
        text = random() % 4 == 0 ? "Another tale " + std::to_string(random() % 5)
                                 : text + reply.json()["choices"][0]["text"].get<std::string>();
        // A replay asks when it was asked: none may come while another runs, however slow a step is foretold to be.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      page = server.ask("GET", "/metrics").body;
    }
    const RequestTrace trace = read_trace(std::array{file_});
    EXPECT_EQ(trace.requests.size(), 48U);
    const auto measured = measured_outcomes(trace);
    ASSERT_TRUE(measured);
    EXPECT_EQ(static_cast<double>(measured->prompt_tokens), number_in(page, "vllm:prefix_cache_queries_total"));
    EXPECT_EQ(static_cast<double>(measured->reused_tokens), number_in(page, "vllm:prefix_cache_hits_total"));
    EXPECT_EQ(static_cast<double>(measured->preemptions), number_in(page, "vllm:num_preemptions_total"));
    const Replayed replayed = replay(trace, {spec, trace.config->engine, trace.costs});
    EXPECT_EQ(replayed.foretold.requests, measured->requests);
    EXPECT_EQ(replayed.foretold.answer_tokens, measured->answer_tokens);
    EXPECT_EQ(replayed.foretold.reused_tokens, measured->reused_tokens) << seed;
    EXPECT_EQ(replayed.foretold.computed_tokens, measured->computed_tokens) << seed;
  }
}

}  // namespace
}  // namespace kvasir::testing
