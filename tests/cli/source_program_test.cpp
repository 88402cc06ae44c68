// An encoder-decoder as a user meets it: a T5 of random weights through plan, synth, run and serve.
#include "child.h"
#include "cli/client/http_client.h"
#include "program.h"
#include "server/api/json_fields.h"

namespace kvasir::testing {
namespace {

constexpr const char* kT5Config = R"({
  "model_type": "t5", "is_encoder_decoder": true, "vocab_size": 8192, "d_model": 64, "d_kv": 16, "d_ff": 96,
  "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "relative_attention_num_buckets": 32,
  "relative_attention_max_distance": 128, "layer_norm_epsilon": 1e-06, "feed_forward_proj": "gated-gelu",
  "tie_word_embeddings": false, "n_positions": 256, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1,
  "torch_dtype": "bfloat16"
})";

class SourceProgramTest : public ProgramTest {
 protected:
  // With the shipped model's tokenizer, and no template of chats.
  std::string t5() {
    const std::filesystem::path out = folder_ / "t5";
    const std::filesystem::path config = folder_ / "t5.json";
    std::ofstream(config) << kT5Config;
    const Ran synth = run("synth --config " + config.string() + " --out " + out.string());
    EXPECT_EQ(synth.code, 0) << synth.err;
    const std::filesystem::path shipped = KVASIR_SOURCE_DIR "/models/tales";
    std::filesystem::copy_file(shipped / "tokenizer.json", out / "tokenizer.json");
    return out.string();
  }
};

TEST_F(SourceProgramTest, PlansAndRuns) {
  const std::string model = t5();
  const Ran plan = run("plan -m " + model + " --kv f16 --json");
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Json groups = Json::parse(plan.out)["kv"]["groups"];
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[1]["of"], "source");
  EXPECT_EQ(groups[1]["layers"], 2);
  EXPECT_EQ(groups[0]["bytes_per_token"], 2 * 2 * 64 * 2);
  EXPECT_EQ(groups[1]["bytes_per_request"], 256 * 2 * 2 * 64 * 2);
  EXPECT_NE(run("plan -m " + model + " --kv f16").out.find("keep a source"), std::string::npos);

  const std::string ask = "run -m " + model + " -n 8 --temp 0 --ignore-eos -p ";
  const Ran one = run(ask + "'Once upon a time'");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out, "\n");
  EXPECT_EQ(run(ask + "'Once upon a time'").out, one.out);
  EXPECT_NE(run(ask + "'The fox and the crow'").out, one.out);
  EXPECT_EQ(run(ask + "'Once upon a time' --chat").code, 0);
  std::string longer;
  for (int i = 0; i < 400; ++i) longer += "fox ";
  expect_refused(ask + "'" + longer + "'", 1, "and at most 256 are read at once");
  expect_refused(ask + "x --kv 'f16, evict=h2o:20'", 2, "scores depend on distances");
}

TEST_F(SourceProgramTest, AServerTellsHowMuchOfTheSourceWasFound) {
  const std::string err = (folder_ / "serve_err").string();
  Child server({KVASIR_PROGRAM, "serve", "--port", "0", "-m", t5()}, err);
  const std::string said = server.said("try:");
  ASSERT_FALSE(said.empty());
  const size_t at = said.find("http://");
  const HttpAddress address = parse_url(said.substr(at, said.find_first_of(" \"\n", at) - at));
  const auto post = [&](const std::string& path, const Json& body) {
    const auto reply = HttpClient(address).post(path, "", body.dump());
    EXPECT_EQ(reply.status, 200) << reply.body;
    return Json::parse(reply.body);
  };
  Json body{{"prompt", "A fox saw a crow in a tree, and the crow had a piece of cheese."},
            {"max_tokens", 6},
            {"temperature", 0},
            {"ignore_eos", true},
            {"explain", true}};
  const Json cold = post("/v1/completions", body);
  const Json warm = post("/v1/completions", body);
  const int prompt = cold["usage"]["prompt_tokens"];
  EXPECT_GT(prompt, 10);
  EXPECT_EQ(cold["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(warm["usage"]["prompt_tokens_details"]["cached_tokens"], prompt);
  EXPECT_EQ(warm["choices"][0]["text"], cold["choices"][0]["text"]);
  EXPECT_EQ(cold["kvasir"]["source"], (Json{{"tokens", prompt}, {"found", false}}));
  EXPECT_EQ(cold["kvasir"]["reason"], "never_seen");
  EXPECT_EQ(warm["kvasir"]["source"], (Json{{"tokens", prompt}, {"found", true}}));
  body["prompt"] = "A fox saw a crow in a tree, and the crow had a piece of bread.";
  EXPECT_EQ(post("/v1/completions", body)["usage"]["prompt_tokens_details"]["cached_tokens"], 0);

  // Messages are one text, and what was asked is found again.
  const Json chat{{"messages", {{{"role", "user"}, {"content", "Tell me of the fox."}}}},
                  {"max_tokens", 4},
                  {"temperature", 0},
                  {"n", 2}};
  const Json first = post("/v1/chat/completions", chat);
  const Json again = post("/v1/chat/completions", chat);
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(again["usage"]["prompt_tokens_details"]["cached_tokens"], again["usage"]["prompt_tokens"]);
  EXPECT_EQ(again["choices"], first["choices"]);
  const std::string page = HttpClient(address).get("/metrics", "").body;
  const size_t hits = page.find("\nvllm:prompt_tokens_cached_total{");
  ASSERT_NE(hits, std::string::npos);
  EXPECT_EQ(std::stod(page.substr(page.find("} ", hits) + 2)), prompt + again["usage"]["prompt_tokens"].get<int>());
  EXPECT_EQ(server.end(), 0);
}

}  // namespace
}  // namespace kvasir::testing
