// The other two dialects over a socket.
#include "test_server.h"

namespace kvasir::testing {
namespace {

class DialectTest : public ServedDraft {
 protected:
  TestServer server_{*model_, {}, {.model_name = "draft"}};
};

TEST_F(DialectTest, AnthropicMessageAndItsStreamAgree) {
  Json body = story(10);
  body["system"] = "You tell stories to small children, and all of them end well, at home and in bed.";
  const Json whole = server_.post("/v1/messages", body).json();
  EXPECT_EQ(whole["type"], "message");
  EXPECT_EQ(whole["role"], "assistant");
  EXPECT_EQ(whole["stop_reason"], "max_tokens");
  EXPECT_TRUE(whole["stop_sequence"].is_null());
  const Json counted = server_.post("/v1/messages/count_tokens", body).json();
  const auto total = [](const Json& usage) {
    return usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>() +
           usage["cache_creation_input_tokens"].get<int>();
  };
  EXPECT_EQ(total(whole["usage"]), counted["input_tokens"]);
  body["stream"] = true;
  const std::string stream = server_.post("/v1/messages", body).body;
  EXPECT_EQ(stream.find("[DONE]"), std::string::npos);
  std::vector<std::string> order;
  std::string text;
  for (const Json& event : events_of(stream)) {
    if (order.empty() || order.back() != event["type"]) order.push_back(event["type"]);
    if (event["type"] == "content_block_delta") text += event["delta"]["text"];
    if (event["type"] == "message_start") {
      EXPECT_EQ(total(event["message"]["usage"]), counted["input_tokens"]);
      EXPECT_GT(event["message"]["usage"]["cache_read_input_tokens"], 0);
    }
    if (event["type"] == "message_delta") {
      EXPECT_EQ(event["usage"]["output_tokens"], 10);
    }
    EXPECT_NE(stream.find("event: " + event["type"].get<std::string>() + "\ndata: "), std::string::npos);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"message_start", "content_block_start", "content_block_delta",
                                             "content_block_stop", "message_delta", "message_stop"}));
  EXPECT_EQ(text, whole["content"][0]["text"]);
}

TEST_F(DialectTest, AnthropicStopSequencesAreNamed) {
  Json body = story(30);
  const std::string text = server_.post("/v1/messages", body).json()["content"][0]["text"];
  body["stop_sequences"] = {text.substr(8, 5)};
  const Json cut = server_.post("/v1/messages", body).json();
  EXPECT_EQ(cut["stop_reason"], "stop_sequence");
  EXPECT_EQ(cut["stop_sequence"], text.substr(8, 5));
  EXPECT_EQ(cut["content"][0]["text"], text.substr(0, text.find(text.substr(8, 5))));
}

TEST_F(DialectTest, AnthropicErrorsHaveTheirShape) {
  const Reply reply = server_.post("/v1/messages", {{"messages", {{{"role", "user"}, {"content", "x"}}}}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["type"], "error");
  EXPECT_EQ(reply.json()["error"]["type"], "invalid_request_error");
  EXPECT_EQ(server_.ask("GET", "/v1/messages").status, 405);
}

TEST_F(DialectTest, OllamaChatAndGenerate) {
  Json body = story(0);
  body.erase("max_tokens");
  body["options"] = {{"num_predict", 7}, {"temperature", 0}};
  const Reply stream = server_.post("/api/chat", body);
  EXPECT_EQ(stream.headers.at("content-type"), "application/x-ndjson");
  std::string text;
  Json last;
  for (size_t at = 0; at < stream.body.size(); at = stream.body.find('\n', at) + 1) {
    last = Json::parse(stream.body.substr(at, stream.body.find('\n', at) - at));
    text += last["message"]["content"];
  }
  EXPECT_EQ(last["done"], true);
  EXPECT_EQ(last["done_reason"], "length");
  EXPECT_EQ(last["eval_count"], 7);
  body["stream"] = false;
  EXPECT_EQ(server_.post("/api/chat", body).json()["message"]["content"], text);
  const Json generate{{"prompt", body["messages"][0]["content"]}, {"stream", false}, {"options", body["options"]}};
  EXPECT_EQ(server_.post("/api/generate", generate).json()["response"], text);
  EXPECT_EQ(server_.ask("GET", "/api/tags").json()["models"][0]["name"], "draft");
  EXPECT_TRUE(server_.ask("GET", "/api/version").json()["version"].is_string());
  EXPECT_EQ(server_.post("/api/chat", {{"messages", 7}}).json()["error"],
            "messages must be an array of at least one message");
}

}  // namespace
}  // namespace kvasir::testing
