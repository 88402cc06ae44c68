// OpenAI's responses: their shape, their events, and those that are kept.
#include "cpu_time.h"
#include "server/api/responses_parse.h"
#include "server/response_store.h"
#include "test_server.h"

namespace kvasir::testing {
namespace {

class ResponsesTest : public ServedDraft {
 protected:
  static Json ask_for(const Json& input, int tokens = 8) {
    return {{"input", input}, {"max_output_tokens", tokens}, {"temperature", 0}};
  }
  static std::string text_of(const Json& response) { return response["output"][0]["content"][0]["text"]; }

  TestServer server_{*model_, {}, {.model_name = "draft"}};
};

TEST_F(ResponsesTest, SaysTheSameAsAChat) {
  Json body = ask_for("Tell me a story about a fox and a crow.");
  body["metadata"] = {{"topic", "foxes"}};
  body["prompt_cache_key"] = "mine";
  const Json response = server_.post("/v1/responses", body).json();
  EXPECT_EQ(response["object"], "response");
  EXPECT_TRUE(response["id"].get<std::string>().starts_with("resp_"));
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["max_output_tokens"], 8);
  EXPECT_EQ(response["metadata"]["topic"], "foxes");
  EXPECT_EQ(response["prompt_cache_key"], "mine");
  EXPECT_TRUE(response["error"].is_null());
  EXPECT_EQ(response["output"][0]["role"], "assistant");
  Json chat_body = story(8);
  chat_body["prompt_cache_key"] = "mine";  // another key is another part of the cache
  const Json chat = server_.post("/v1/chat/completions", chat_body).json();
  EXPECT_EQ(text_of(response), chat["choices"][0]["message"]["content"]);
  EXPECT_EQ(response["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
  EXPECT_EQ(chat["usage"]["prompt_tokens_details"]["cached_tokens"], chat["usage"]["prompt_tokens"].get<int>() - 1);
  const Json& details = response["usage"]["input_tokens_details"];
  EXPECT_TRUE(details["cached_tokens"].is_number() && details["cache_write_tokens"].is_number());
}

TEST_F(ResponsesTest, ItemsAndInstructionsBecomeMessages) {
  const Json items = Json::parse(R"([
      {"role": "user", "content": "Who is there?"},
      {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A fox.", "annotations": []}]},
      {"type": "reasoning", "id": "rs_1", "summary": []},
      {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And "},
                                                      {"type": "input_text", "text": "now?"}]}])");
  Json body = ask_for(items);
  body["instructions"] = "Be short.";
  const Json response = server_.post("/v1/responses", body).json();
  const Json messages = Json::parse(R"([{"role": "system", "content": "Be short."},
                                        {"role": "user", "content": "Who is there?"},
                                        {"role": "assistant", "content": "A fox."},
                                        {"role": "user", "content": "And now?"}])");
  const Json chat =
      server_.post("/v1/chat/completions", {{"messages", messages}, {"max_tokens", 8}, {"temperature", 0}}).json();
  EXPECT_EQ(text_of(response), chat["choices"][0]["message"]["content"]);
  EXPECT_EQ(response["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
  const Json counted = server_.post("/v1/responses/input_tokens", body).json();
  EXPECT_EQ(counted["object"], "response.input_tokens");
  EXPECT_EQ(counted["input_tokens"], chat["usage"]["prompt_tokens"]);
}

TEST_F(ResponsesTest, KeepsToASchemaAndTellsProbabilities) {
  Json body = ask_for("Tell me a story about a fox and a crow.", 100);
  body["text"] = {{"format", {{"type", "json_schema"}, {"name", "sign"}, {"schema", {{"enum", {"fox", "crow"}}}}}}};
  body["include"] = {"message.output_text.logprobs"};
  body["top_logprobs"] = 2;
  const Json whole = server_.post("/v1/responses", body).json();
  EXPECT_EQ(whole["status"], "completed");
  EXPECT_TRUE(whole["completed_at"].is_number());
  EXPECT_EQ(whole["text"]["format"]["name"], "sign");
  const std::string answer = Json::parse(text_of(whole));
  EXPECT_TRUE(answer == "fox" || answer == "crow");
  const Json& tokens = whole["output"][0]["content"][0]["logprobs"];
  EXPECT_EQ(tokens.size(), whole["usage"]["output_tokens"]);
  EXPECT_EQ(tokens[0]["top_logprobs"].size(), 2U);
  std::string spelled;
  for (const Json& token : tokens) spelled += token["token"];
  EXPECT_EQ(spelled, text_of(whole));
  body["stream"] = true;
  spelled.clear();
  for (const Json& event : events_of(server_.post("/v1/responses", body).body)) {
    if (event["type"] != "response.output_text.delta") continue;
    for (const Json& token : event["logprobs"]) spelled += token["token"];
  }
  EXPECT_EQ(spelled, text_of(whole));
}

TEST_F(ResponsesTest, CallsFunctions) {
  Json body = ask_for("What time is it?", 300);
  body["temperature"] = 1.5;  // a model that has never seen JSON likes its white space too much otherwise
  body["seed"] = 1;
  body["tools"] = Json::parse(R"([{"type": "function", "name": "clock", "parameters": {"type": "object",
      "properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"], "additionalProperties": false}}])");
  body["tool_choice"] = {{"type", "function"}, {"name", "clock"}};
  const Json whole = server_.post("/v1/responses", body).json();
  EXPECT_EQ(whole["status"], "completed");
  ASSERT_EQ(whole["output"].size(), 1U) << whole;
  const Json& call = whole["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "clock");
  const Json arguments = Json::parse(call["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["zone"] == "UTC" || arguments["zone"] == "CET");
  EXPECT_EQ(whole["tool_choice"], body["tool_choice"]);
  EXPECT_EQ(whole["tools"][0]["name"], "clock");
  Json answer = ask_for(Json::parse(R"([{"type": "function_call_output", "output": "noon"}])"));
  answer["input"][0]["call_id"] = call["call_id"];
  answer["previous_response_id"] = whole["id"];
  EXPECT_EQ(server_.post("/v1/responses", answer).status, 200);
  body["stream"] = true;
  std::vector<std::string> order;
  std::string streamed;
  for (const Json& event : events_of(server_.post("/v1/responses", body).body)) {
    if (order.empty() || order.back() != event["type"]) order.push_back(event["type"]);
    if (event["type"] == "response.function_call_arguments.delta") streamed += event["delta"];
  }
  EXPECT_EQ(streamed, call["arguments"]);
  EXPECT_EQ(order, (std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added",
                                             "response.function_call_arguments.delta",
                                             "response.function_call_arguments.done", "response.output_item.done",
                                             "response.completed"}));
  body["tools"][0]["name"] = "two words";
  const Reply wrong = server_.post("/v1/responses", body);
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(wrong.json()["error"]["param"], "tools[0].name");
}

TEST(ResponsesItems, CallsJoinTheMessageBeforeThem) {
  const Json body = Json::parse(R"({"input": [
      {"role": "user", "content": "Rain?"},
      {"role": "assistant", "content": "I look."},
      {"type": "function_call", "call_id": "a", "name": "rain", "arguments": "{\"in\":\"Bergen\"}"},
      {"type": "function_call", "call_id": "b", "name": "wind", "arguments": "now"},
      {"type": "function_call_output", "call_id": "a", "output": "yes"},
      {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "no"}]}]})");
  const OrderedJson messages = messages_of("", parse_responses(body).items);
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages[1]["content"], "I look.");
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"]["in"], "Bergen");
  EXPECT_EQ(messages[1]["tool_calls"][1]["function"]["arguments"], "now");
  EXPECT_EQ(messages[2]["tool_call_id"], "a");
  EXPECT_EQ(messages[3]["content"], "no");
}

// Whatever nesting a client says a model wrote: it stays text where it is too deep to be read.
TEST(ResponsesItems, NestedArgumentsAreText) {
  std::string deep;
  for (int i = 0; i < 200'000; ++i) deep += R"({"a":)";
  deep += "1" + std::string(200'000, '}');
  const Json call{{"type", "function_call"}, {"call_id", "c"}, {"name", "f"}, {"arguments", deep}};
  const Json body{{"input", {call, {{"type", "function_call_output"}, {"call_id", "c"}, {"output", "x"}}}}};
  const OrderedJson messages = messages_of("", parse_responses(body).items);
  EXPECT_EQ(messages[0]["tool_calls"][0]["function"]["arguments"], deep);
}

TEST_F(ResponsesTest, EventsComeInOrderAndAddUp) {
  Json body = ask_for("Tell me a story about a fox and a crow.", 12);
  const Json whole = server_.post("/v1/responses", body).json();
  body["stream"] = true;
  const std::string stream = server_.post("/v1/responses", body).body;
  const std::vector<Json> events = events_of(stream);
  std::vector<std::string> order;
  std::string text;
  for (size_t i = 0; i < events.size(); ++i) {
    const std::string type = events[i]["type"];
    EXPECT_EQ(events[i]["sequence_number"], i);
    EXPECT_NE(stream.find("event: " + type + "\ndata: "), std::string::npos);
    if (order.empty() || order.back() != type) order.push_back(type);
    if (type == "response.output_text.delta") text += events[i]["delta"];
    if (events[i].contains("item_id")) {
      EXPECT_EQ(events[i]["item_id"], events[2]["item"]["id"]);
    }
  }
  EXPECT_EQ(order, (std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added",
                                             "response.content_part.added", "response.output_text.delta",
                                             "response.output_text.done", "response.content_part.done",
                                             "response.output_item.done", "response.incomplete"}));
  EXPECT_EQ(events.front()["response"]["status"], "in_progress");
  const Json& last = events.back()["response"];
  EXPECT_EQ(text, text_of(whole));
  EXPECT_EQ(text_of(last), text);
  EXPECT_EQ(last["usage"]["output_tokens"], 12);
  EXPECT_EQ(last["usage"]["input_tokens_details"]["cached_tokens"], last["usage"]["input_tokens"].get<int>() - 1);
  EXPECT_EQ(server_.ask("GET", "/v1/responses/" + last["id"].get<std::string>()).json(), last);
}

TEST_F(ResponsesTest, GoesOnFromAnEarlierOne) {
  const Json first = server_.post("/v1/responses", ask_for("Tell me a story about a fox and a crow.")).json();
  Json body = ask_for("And then?");
  body["previous_response_id"] = first["id"];
  const Json second = server_.post("/v1/responses", body).json();
  EXPECT_EQ(second["previous_response_id"], first["id"]);
  Json chat = story(8);
  chat["messages"].push_back({{"role", "assistant"}, {"content", text_of(first)}});
  chat["messages"].push_back({{"role", "user"}, {"content", "And then?"}});
  EXPECT_EQ(text_of(second), server_.post("/v1/chat/completions", chat).json()["choices"][0]["message"]["content"]);
  EXPECT_GE(second["usage"]["input_tokens_details"]["cached_tokens"],
            first["usage"]["input_tokens"].get<int>() / 16 * 16);
  const std::string path = "/v1/responses/" + second["id"].get<std::string>();
  const Json items = server_.ask("GET", path + "/input_items").json();
  ASSERT_EQ(items["data"].size(), 3U);
  EXPECT_EQ(items["data"][1]["id"], first["output"][0]["id"]);
  EXPECT_EQ(items["last_id"], items["data"][2]["id"]);
}

// What was put out may come back by its id, as the AI SDK sends it.
TEST_F(ResponsesTest, ItemsAreNamedByTheirIds) {
  const Json first = server_.post("/v1/responses", ask_for("Tell me a story about a fox and a crow.")).json();
  const Json question{{"role", "user"}, {"content", "Tell me a story about a fox and a crow."}};
  const Json next{{"role", "user"}, {"content", "And then?"}};
  const Json id = first["output"][0]["id"];
  const Json named =
      server_.post("/v1/responses", ask_for({question, {{"type", "item_reference"}, {"id", id}}, next})).json();
  const Json untyped = server_.post("/v1/responses", ask_for({question, {{"id", id}}, next})).json();
  const Json whole = server_.post("/v1/responses", ask_for({question, first["output"][0], next})).json();
  EXPECT_EQ(text_of(named), text_of(whole));
  EXPECT_EQ(text_of(untyped), text_of(whole));
  EXPECT_EQ(named["usage"]["input_tokens"], whole["usage"]["input_tokens"]);
  const Json count{{"input", {question, {{"id", id}}, next}}};
  EXPECT_EQ(server_.post("/v1/responses/input_tokens", count).json()["input_tokens"], whole["usage"]["input_tokens"]);
  const std::string path = "/v1/responses/" + named["id"].get<std::string>() + "/input_items";
  EXPECT_EQ(server_.ask("GET", path).json()["data"][1], first["output"][0]);
  const Reply gone = server_.post("/v1/responses", ask_for({question, {{"id", "msg_0"}}}));
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(gone.json()["error"]["param"], "input[1].id");
  const Reply twice = server_.post("/v1/responses", ask_for({{{"id", id}}, {{"id", id}}, next}));
  EXPECT_EQ(twice.status, 400);
  EXPECT_EQ(twice.json()["error"]["param"], "input[1].id");
}

TEST_F(ResponsesTest, KeepsNothingThatWasNotMeantToBeKept) {
  Json body = ask_for("Hello.");
  body["store"] = false;
  const Json response = server_.post("/v1/responses", body).json();
  EXPECT_EQ(response["store"], false);
  const std::string path = "/v1/responses/" + response["id"].get<std::string>();
  EXPECT_EQ(server_.ask("GET", path).status, 404);
  body["store"] = true;
  const Json kept = server_.post("/v1/responses", body).json();
  const std::string kept_path = "/v1/responses/" + kept["id"].get<std::string>();
  EXPECT_EQ(server_.ask("GET", kept_path).json(), kept);
  EXPECT_EQ(server_.ask("DELETE", kept_path).json()["deleted"], true);
  EXPECT_EQ(server_.ask("DELETE", kept_path).status, 404);
  EXPECT_EQ(server_.ask("GET", kept_path).status, 404);
  body["previous_response_id"] = kept["id"];
  const Reply gone = server_.post("/v1/responses", body);
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(gone.json()["error"]["param"], "previous_response_id");
  const Reply wrong = server_.ask("PUT", kept_path);
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "GET, DELETE");
}

// What is kept is read again for the next turn: a schema of many keys must not make that slow.
TEST_F(ResponsesTest, GoesOnFromOneWithAWideTool) {
  Json properties = Json::object();
  for (int i = 0; i < 60'000; ++i) properties["p" + std::to_string(i)] = {{"type", "null"}};
  const Json tool{{"type", "function"}, {"name", "f"}, {"parameters", {{"properties", properties}}}};
  const Json first{{"input", "a fox"}, {"tools", {tool}}, {"tool_choice", "none"}, {"max_output_tokens", 2}};
  const Reply kept = server_.post("/v1/responses", first);
  ASSERT_EQ(kept.status, 200) << kept.body.substr(0, 300);
  const Json second{{"input", "and a crow"}, {"previous_response_id", kept.json()["id"]}, {"max_output_tokens", 2}};
  EXPECT_LT(cpu_seconds([&] { EXPECT_EQ(server_.post("/v1/responses", second).status, 200); }), 4);
}

TEST_F(ResponsesTest, MistakesNameTheParameter) {
  const auto param = [&](const Json& body) {
    const Reply reply = server_.post("/v1/responses", body);
    EXPECT_EQ(reply.status, 400) << body;
    return reply.json()["error"]["param"];
  };
  EXPECT_EQ(param(Json::object()), "input");
  EXPECT_EQ(param({{"input", Json::array()}}), "input");
  EXPECT_EQ(param({{"input", {{{"type", "reasoning"}}}}}), "input");
  EXPECT_EQ(param({{"input", {{{"role", "king"}, {"content", "x"}}}}}), "input[0].role");
  EXPECT_EQ(param({{"input", {{{"role", "user"}}}}}), "input[0].content");
  EXPECT_EQ(param({{"input", {{{"role", "user"}, {"content", {{{"type", "input_image"}}}}}}}}),
            "input[0].content[0].type");
  EXPECT_EQ(param({{"input", {{{"type", "function_call"}, {"name", "f"}}}}}), "input[0].call_id");
  EXPECT_EQ(param({{"input", {{{"type", "web_search_call"}}}}}), "input[0].type");
  EXPECT_EQ(param({{"input", "x"}, {"background", true}}), "background");
  EXPECT_EQ(param({{"input", "x"}, {"truncation", "auto"}}), "truncation");
  EXPECT_EQ(param({{"input", "x"}, {"top_logprobs", 2}}), "top_logprobs");
  EXPECT_EQ(param({{"input", "x"}, {"text", {{"format", {{"type", "xml"}}}}}}), "text.format.type");
  EXPECT_EQ(param({{"input", "x"}, {"text", {{"format", {{"type", "json_schema"}, {"name", "x"}}}}}}),
            "text.format.schema");
  EXPECT_EQ(param({{"input", "x"}, {"metadata", {{"a", 1}}}}), "metadata");
  EXPECT_EQ(param({{"input", {{{"role", "user"}, {"content", "x"}, {"id", std::string(257, 'i')}}}}}), "input[0].id");
  const Json wide{{"type", "function"}, {"name", "f"}, {"description", std::string(5 << 20, 'd')}};
  EXPECT_EQ(param({{"input", "x"}, {"tools", {wide}}, {"tool_choice", "none"}}), "tools");
  EXPECT_EQ(param({{"input", "x"}, {"max_output_tokens", 0}}), "max_output_tokens");
  EXPECT_EQ(param({{"input", "x"}, {"temperature", 3}}), "temperature");
}

TEST(ResponseStoreTest, KeepsTheNewestWithinItsBytesForEachTenant) {
  ResponseStore store({.responses = 3, .bytes = 100});
  const auto response = [](const std::string& id, size_t size) {
    return KeptResponse{id, std::string(size, 'x'), "[]"};
  };
  for (const char* id : {"a", "b", "c", "d"}) store.add(1, response(id, 10));
  EXPECT_EQ(store.find(1, "a"), nullptr);
  ASSERT_NE(store.find(1, "b"), nullptr);
  EXPECT_EQ(store.find(2, "b"), nullptr);
  EXPECT_FALSE(store.remove(2, "b"));
  EXPECT_EQ(store.bytes(1), 3U * 13);
  store.add(1, response("e", 80));
  EXPECT_EQ(store.find(1, "c"), nullptr);
  EXPECT_NE(store.find(1, "d"), nullptr);
  store.add(1, response("huge", 101));
  EXPECT_EQ(store.find(1, "huge"), nullptr);
  EXPECT_NE(store.find(1, "e"), nullptr);
  EXPECT_TRUE(store.remove(1, "e"));
  EXPECT_TRUE(store.remove(1, "d"));
  EXPECT_EQ(store.bytes(1), 0U);
}

}  // namespace
}  // namespace kvasir::testing
