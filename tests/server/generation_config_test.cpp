// What a model's generation_config.json asks for, through every API: a request that names no sampling is drawn so.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "test_server.h"

namespace kvasir::testing {
namespace {

// The small shipped model, as its authors would ship it with this generation_config.json.
class GenerationConfigTest : public ::testing::Test {
 protected:
  GenerationConfigTest() { std::filesystem::create_directories(folder_); }
  ~GenerationConfigTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<LoadedModel> model_that_asks(const Json& config, const char* read = "auto") {
    LlmOptions options = draft_options();
    options.generation_config = read;
    for (const auto& entry : std::filesystem::directory_iterator(options.model)) {
      const auto copy = folder_ / entry.path().filename();
      std::filesystem::remove(copy);
      if (entry.path().filename() != "generation_config.json") std::filesystem::create_symlink(entry.path(), copy);
    }
    std::ofstream(folder_ / "generation_config.json") << config.dump();
    options.model = folder_.string();
    return std::make_unique<LoadedModel>(options);
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvasir_asks_" + std::to_string(::getpid()));
};

const Json kMessages = {{{"role", "user"}, {"content", "Tell me a story about a fox and a crow."}}};

struct ApiRoute {
  const char* path;
  Json body;           // names no sampling
  const char* answer;  // where the text stands in the reply
  bool inner;          // settings stand in "options"
};

std::vector<ApiRoute> routes() {
  return {
      {"/v1/chat/completions", {{"messages", kMessages}, {"max_tokens", 24}}, "/choices/0/message/content", false},
      {"/v1/completions", {{"prompt", "Once upon"}, {"max_tokens", 24}}, "/choices/0/text", false},
      {"/v1/responses", {{"input", kMessages}, {"max_output_tokens", 24}}, "/output/0/content/0/text", false},
      {"/v1/messages", {{"messages", kMessages}, {"max_tokens", 24}}, "/content/0/text", false},
      {"/api/chat",
       {{"messages", kMessages}, {"stream", false}, {"options", {{"num_predict", 24}}}},
       "/message/content",
       true},
      {"/api/generate",
       {{"prompt", "Once upon"}, {"stream", false}, {"options", {{"num_predict", 24}}}},
       "/response",
       true}};
}

std::string ask(TestServer& server, const ApiRoute& route, const Json& settings) {
  Json body = route.body;
  (route.inner ? body["options"] : body).update(settings);
  const Reply reply = server.post(route.path, body);
  EXPECT_EQ(reply.status, 200) << route.path << reply.body;
  return reply.json().at(Json::json_pointer(route.answer)).get<std::string>();
}

TEST_F(GenerationConfigTest, OffItIsNotRead) {
  const std::unique_ptr<LoadedModel> model = model_that_asks({{"do_sample", false}, {"temperature", 0.6}}, "off");
  EXPECT_TRUE(model->sampling.empty());
  TestServer server(*model);
  EXPECT_EQ(server.ask("GET", "/props").json()["default_generation_settings"]["params"]["temperature"], 1);
  EXPECT_THROW(model_that_asks(Json::object(), "of"), Error);
}

TEST_F(GenerationConfigTest, EveryApiDrawsAsTheModelAsksWhereTheRequestSaysNothing) {
  const std::unique_ptr<LoadedModel> model = model_that_asks({{"do_sample", false}, {"temperature", 0.6}});
  TestServer server(*model);
  for (const ApiRoute& route : routes()) {
    const std::string greedy = ask(server, route, {{"temperature", 0}, {"seed", 1}});
    EXPECT_EQ(ask(server, route, Json::object()), greedy) << route.path;
    EXPECT_EQ(ask(server, route, {{"seed", 2}}), greedy) << route.path;
    EXPECT_NE(ask(server, route, {{"temperature", 2}, {"seed", 2}}), greedy) << route.path;
  }
}

TEST_F(GenerationConfigTest, WhatARequestLeavesOutIsTheModels) {
  const std::unique_ptr<LoadedModel> model = model_that_asks({{"temperature", 2.0}, {"top_k", 1}});
  TestServer server(*model);
  for (const ApiRoute& route : routes()) {
    const std::string greedy = ask(server, route, {{"temperature", 0}, {"seed", 1}});
    EXPECT_EQ(ask(server, route, {{"top_p", 0.99}, {"seed", 2}}), greedy) << route.path << ": top_k 1 is the model's";
    EXPECT_NE(ask(server, route, {{"top_k", 0}, {"seed", 2}}), greedy)
        << route.path << ": temperature 2 is the model's";
  }
}

TEST_F(GenerationConfigTest, PropsAndResponsesTellWhatIsDrawnWith) {
  const std::unique_ptr<LoadedModel> model = model_that_asks({{"temperature", 0.7}, {"top_p", 0.9}});
  TestServer server(*model);
  const Json params = server.ask("GET", "/props").json()["default_generation_settings"]["params"];
  EXPECT_EQ(params["temperature"], 0.7);
  EXPECT_EQ(params["top_p"], 0.9);
  EXPECT_EQ(params["top_k"], 0);
  const Json told = server.post("/v1/responses", {{"input", "hi"}, {"max_output_tokens", 1}, {"top_p", 0.25}}).json();
  EXPECT_EQ(told["temperature"], 0.7);
  EXPECT_EQ(told["top_p"], 0.25);
}

TEST_F(GenerationConfigTest, AModelThatNamesNothingLeavesEachApiItsHabits) {
  const std::unique_ptr<LoadedModel> model = model_that_asks({{"eos_token_id", {0, 3}}});
  TestServer server(*model);
  const Json params = server.ask("GET", "/props").json()["default_generation_settings"]["params"];
  EXPECT_EQ(params["temperature"], 1.0);
  EXPECT_EQ(params["top_p"], 1.0);
  for (const ApiRoute& route : routes()) {
    const Json habits =
        route.inner ? Json{{"temperature", 0.8}, {"top_k", 40}, {"top_p", 0.9}} : Json{{"temperature", 1}};
    Json named = habits;
    named["seed"] = 5;
    EXPECT_EQ(ask(server, route, {{"seed", 5}}), ask(server, route, named)) << route.path;
  }
}

}  // namespace
}  // namespace kvasir::testing
