// Answers held to JSON and to schemas, with the small shipped model, which has never seen any.
#include "server/answer/response_format.h"

#include "../grammar/schema_validator.h"
#include "test_server.h"

namespace kvasir::testing {
namespace {

const char* const kAnimal = R"({"type":"object","properties":{
    "name":{"type":"string","maxLength":12},"kind":{"enum":["fox","crow","wolf"]},"age":{"type":"integer","minimum":0,"maximum":99},
    "tags":{"type":"array","items":{"type":"string","maxLength":5},"maxItems":3,"uniqueItems":true}},
    "required":["name","kind","age","tags"],"additionalProperties":false})";

class ResponseFormatTest : public ServiceDraft {
 protected:
  static Json with_schema(const std::string& schema) {
    Json body = story(400);
    body["response_format"] = {
        {"type", "json_schema"},
        {"json_schema", {{"name", "answer"}, {"strict", true}, {"schema", Json::parse(schema)}}}};
    body["temperature"] = 1.5;
    return body;
  }
  static std::string why_not(const std::string& text) {
    const OrderedJson schema = OrderedJson::parse(kAnimal);
    return grammar::testing::why_invalid(OrderedJson::parse(text), schema, schema);
  }
  std::string content(const Json& body) {
    return post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"];
  }
};

TEST_F(ResponseFormatTest, AnySeedSatisfiesTheSchema) {
  Json body = with_schema(kAnimal);
  int finished = 0;
  for (int seed = 0; seed < 20; ++seed) {
    body["seed"] = seed;
    const Json choice = post("/v1/chat/completions", body).json()["choices"][0];
    if (choice["finish_reason"] != "stop") continue;
    ++finished;
    const std::string text = choice["message"]["content"];
    EXPECT_EQ(why_not(text), "") << text;
    std::vector<std::string> keys;
    const OrderedJson parsed = OrderedJson::parse(text);
    for (const auto& [key, value] : parsed.items()) keys.push_back(key);
    EXPECT_EQ(keys, (std::vector<std::string>{"name", "kind", "age", "tags"}));  // in the schema's order
  }
  EXPECT_GE(finished, 15);
}

TEST_F(ResponseFormatTest, JsonModeGivesObjects) {
  Json body = story(300);
  body["response_format"] = {{"type", "json_object"}};
  body["temperature"] = 1.5;
  int finished = 0;
  for (int seed = 0; seed < 10; ++seed) {
    body["seed"] = seed;
    const Json choice = post("/v1/chat/completions", body).json()["choices"][0];
    if (choice["finish_reason"] != "stop") continue;
    ++finished;
    EXPECT_TRUE(Json::parse(choice["message"]["content"].get<std::string>()).is_object());
  }
  EXPECT_GE(finished, 1);
}

TEST_F(ResponseFormatTest, ColdCachedAndBatchedAnswersAreTheSame) {
  LoadedModel own(draft_options());
  Service alone(own, {.model_name = "alone"});
  Json body = with_schema(kAnimal);
  body["logprobs"] = true;
  std::vector<Json> cold;
  for (int seed = 0; seed < 4; ++seed) {
    body["seed"] = seed;
    cold.push_back(post("/v1/chat/completions", body).json()["choices"][0]);
    EXPECT_EQ(post("/v1/chat/completions", body).json()["choices"][0], cold.back()) << "found in the cache";
  }
  // All at once, beside requests that may say anything.
  std::vector<Response> running;
  for (int seed = 0; seed < 4; ++seed) {
    body["seed"] = seed;
    running.push_back(alone.handle({"POST", "/v1/chat/completions", body.dump(), "a"}));
    Json free = story(60);
    free["temperature"] = 1;
    free["n"] = 2;
    running.push_back(alone.handle({"POST", "/v1/chat/completions", free.dump(), "b"}));
  }
  for (size_t i = 0; i < running.size(); i += 2)
    EXPECT_EQ(finish(running[i]).json()["choices"][0], cold[i / 2]) << "batched";
}

TEST_F(ResponseFormatTest, SeveralAnswersEachKeepTheForm) {
  Json body = with_schema(kAnimal);
  body["n"] = 3;
  body["seed"] = 11;
  const Json reply = post("/v1/chat/completions", body).json();
  ASSERT_EQ(reply["choices"].size(), 3U);
  for (const Json& choice : reply["choices"]) {
    if (choice["finish_reason"] != "stop") continue;
    EXPECT_EQ(why_not(choice["message"]["content"]), "");
  }
}

TEST_F(ResponseFormatTest, EveryApiHasItsWords) {
  const Json schema = Json::parse(R"({"enum":["yes","no"]})");
  Json body = story(50);
  body["guided_json"] = schema;
  const std::string answer = content(body);
  EXPECT_TRUE(answer == "\"yes\"" || answer == "\"no\"") << answer;
  Json named = story(50);
  named["json_schema"] = schema;
  EXPECT_EQ(content(named), answer);
  Json ollama = story(50);
  ollama.erase("max_tokens");
  ollama["stream"] = false;
  ollama["format"] = schema;
  ollama["options"] = {{"temperature", 0}};
  EXPECT_EQ(post("/api/chat", ollama).json()["message"]["content"], answer);
  const Json completion{{"prompt", "A fox"}, {"guided_json", schema}, {"max_tokens", 50}, {"ignore_eos", true}};
  const Json choice = post("/v1/completions", completion).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");  // a form that is complete ends even so
  EXPECT_TRUE(Json::parse(choice["text"].get<std::string>()).is_string());
}

TEST_F(ResponseFormatTest, CutShortItSaysSo) {
  Json body = with_schema(kAnimal);
  body["max_tokens"] = 4;
  const Json choice = post("/v1/chat/completions", body).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
}

TEST_F(ResponseFormatTest, ABadSchemaIsTheClientsMistake) {
  const std::vector<std::pair<const char*, const char*>> table{
      {R"({"type":"object","frobnicate":{}})", "frobnicate"},
      {R"({"type":"nothing"})", "nothing"},
      {"false", "schema"},
      {"7", "schema"},
  };
  for (const auto& [schema, word] : table) {
    const Reply reply = post("/v1/chat/completions", with_schema(schema));
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_EQ(reply.json()["error"]["param"], "response_format.json_schema.schema");
    EXPECT_NE(reply.json()["error"]["message"].get<std::string>().find(word), std::string::npos) << reply.body;
  }
  Json ollama = story(5);
  ollama.erase("max_tokens");
  ollama["format"] = {{"not", Json::object()}};
  EXPECT_EQ(post("/api/chat", ollama).status, 400);
  EXPECT_EQ(service_.in_flight(), 0);
}

}  // namespace
}  // namespace kvasir::testing
