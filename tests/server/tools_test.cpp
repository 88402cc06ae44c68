// Tools in the three APIs. The small shipped model has never seen one: what it must call, the grammar makes it call.
#include <tuple>

#include "changed_model.h"
#include "server/answer/tool_prompt.h"
#include "server/api/anthropic_parse.h"
#include "server/api/api_error.h"
#include "server/api/ollama_parse.h"
#include "server/api/openai_parse.h"
#include "test_server.h"

namespace kvasir::testing {
namespace {

const char* const kWeather = R"({"type":"object","properties":{"city":{"type":"string","maxLength":10},
    "unit":{"$ref":"#/$defs/unit"}},"required":["city","unit"],"additionalProperties":false,"$defs":{"unit":{"enum":["C","F"]}}})";
const char* const kClock = R"({"type":"object","properties":{"zone":{"enum":["UTC","CET"]}},"required":["zone"]})";

class ToolsTest : public ServiceDraft {
 protected:
  static Json openai_tools() {
    return Json::array(
        {{{"type", "function"},
          {"function",
           {{"name", "get_weather"}, {"description", "The weather"}, {"parameters", Json::parse(kWeather)}}}},
         {{"type", "function"}, {"function", {{"name", "clock"}, {"parameters", Json::parse(kClock)}}}}});
  }
  static Json asked(const Json& choice) {
    Json body = story(300);
    body["tools"] = openai_tools();
    body["tool_choice"] = choice;
    body["temperature"] = 1.5;
    return body;
  }
  static void expect_weather(const Json& arguments) {
    EXPECT_EQ(arguments.size(), 2U);
    EXPECT_TRUE(arguments["city"].is_string());
    EXPECT_TRUE(arguments["unit"] == "C" || arguments["unit"] == "F");
  }
  static inline const Json kNamed{{"type", "function"}, {"function", {{"name", "get_weather"}}}};
};

TEST_F(ToolsTest, ANamedFunctionIsCalled) {
  Json body = asked(kNamed);
  for (int seed = 0; seed < 8; ++seed) {
    body["seed"] = seed;
    const Json choice = post("/v1/chat/completions", body).json()["choices"][0];
    ASSERT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_TRUE(choice["message"]["content"].is_null());
    const Json& call = choice["message"]["tool_calls"].at(0);
    EXPECT_EQ(call["type"], "function");
    EXPECT_TRUE(call["id"].get<std::string>().starts_with("call_"));
    EXPECT_EQ(call["function"]["name"], "get_weather");
    expect_weather(Json::parse(call["function"]["arguments"].get<std::string>()));
  }
}

TEST_F(ToolsTest, RequiredCallsOneOfThem) {
  Json body = asked("required");
  for (int seed = 0; seed < 8; ++seed) {
    body["seed"] = seed;
    const Json choice = post("/v1/chat/completions", body).json()["choices"][0];
    ASSERT_EQ(choice["finish_reason"], "tool_calls");
    const Json& function = choice["message"]["tool_calls"].at(0)["function"];
    const Json arguments = Json::parse(function["arguments"].get<std::string>());
    if (function["name"] == "get_weather") {
      expect_weather(arguments);
    } else {
      EXPECT_EQ(function["name"], "clock");
      EXPECT_TRUE(arguments["zone"] == "UTC" || arguments["zone"] == "CET");
    }
  }
}

TEST_F(ToolsTest, AStreamOfACallSaysTheSame) {
  Json body = asked(kNamed);
  body["seed"] = 5;
  const Json whole = post("/v1/chat/completions", body).json()["choices"][0]["message"]["tool_calls"][0];
  body["stream"] = true;
  std::string name;
  std::string arguments;
  int pieces = 0;
  Json last;
  for (const Json& event : events_of(post("/v1/chat/completions", body).body)) {
    last = event["choices"][0];
    if (!last["delta"].contains("tool_calls")) continue;
    const Json& call = last["delta"]["tool_calls"].at(0);
    EXPECT_EQ(call["index"], 0);
    EXPECT_EQ(call.contains("id"), name.empty());
    name += call["function"].value("name", "");
    arguments += call["function"]["arguments"];
    ++pieces;
  }
  EXPECT_EQ(name, "get_weather");
  EXPECT_EQ(arguments, whole["function"]["arguments"]);
  EXPECT_GT(pieces, 1);
  EXPECT_EQ(last["finish_reason"], "tool_calls");
}

TEST_F(ToolsTest, CutShortACallHasWhatThereIs) {
  Json body = asked(kNamed);
  body["max_tokens"] = 30;
  body["temperature"] = 0;
  const Json choice = post("/v1/chat/completions", body).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
}

TEST_F(ToolsTest, WithoutTheNeedTheyAreInThePrompt) {
  Json body = asked("auto");
  body["max_tokens"] = 8;
  const std::string prompt = post("/apply-template", body).json()["prompt"];
  EXPECT_NE(prompt.find("<tools>\n{\"type\":\"function\",\"function\":{\"name\":\"get_weather\""), std::string::npos);
  EXPECT_EQ(post("/v1/chat/completions", body).json()["choices"][0]["finish_reason"], "length");
  body["tool_choice"] = "none";
  EXPECT_EQ(post("/apply-template", body).json()["prompt"].get<std::string>().find("<tools>"), std::string::npos);
}

TEST_F(ToolsTest, CallsAndResultsBecomeText) {
  const OrderedJson messages = OrderedJson::parse(R"([{"role":"system","content":"S"},{"role":"user","content":"U"},
      {"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"z":1,"a":2}}}]},
      {"role":"tool","tool_call_id":"1","content":"R1"},{"role":"tool","tool_call_id":"2","content":"R2"}])");
  Toolbox box;
  box.tools.push_back({"f", {{"name", "f"}}});
  const OrderedJson out = messages_with_tools(messages, box);
  ASSERT_EQ(out.size(), 4U);
  EXPECT_TRUE(out[0]["content"].get<std::string>().starts_with("S\n\nYou may call"));
  EXPECT_EQ(out[2]["content"], "<tool_call>\n{\"name\":\"f\",\"arguments\":{\"z\":1,\"a\":2}}\n</tool_call>");
  EXPECT_EQ(
      out[3],
      OrderedJson::parse(
          R"({"role":"user","content":"<tool_response>\nR1\n</tool_response>\n<tool_response>\nR2\n</tool_response>"})"));
}

TEST_F(ToolsTest, TheTemplateSaysHowCallsAreWritten) {
  using Told = ToolDialect::Told;
  const std::vector<std::tuple<const char*, const char*, Told>> table{
      {"{{ messages[0].content }}", "hermes", Told::kBySystemText},
      {"{{ messages[0].content }}[TOOL_CALLS]", "hermes", Told::kBySystemText},
      {"{% if tools %}<tool_call>{% endif %}", "hermes", Told::kByTemplate},
      {"{% if tools %}Environment: ipython{% endif %}", "llama3", Told::kByTemplate},
      {"{% if tools %}[AVAILABLE_TOOLS]{% endif %}[TOOL_CALLS]", "mistral", Told::kByTemplate},
      {"{% if tools %}<tool_call><function=f><parameter=a>{% endif %}", "qwen3_coder", Told::kByTemplate},
      {"{% if tools %}<tool_call>f<arg_key>{% endif %}", "glm4", Told::kByTemplate},
      {"{% if tools %}<minimax:tool_call>{% endif %}", "minimax_m2", Told::kByTemplate},
      {"{% if tools %}<seed:tool_call><function=f><parameter=a>{% endif %}", "seed_oss", Told::kByTemplate},
      {"{% if tools %}<|tool_call>call:f{% endif %}", "gemma4", Told::kByTemplate},
      {"{% if tools %}<|tool_calls_section_begin|>{% endif %}", "kimi_k2", Told::kByTemplate},
      {"{% if tools %}<｜tool▁calls▁begin｜>{% endif %}", "deepseek", Told::kByTemplate},
      {"{% if tools %}{{ '<' + '｜DSML｜' }}{% endif %}", "deepseek_dsml", Told::kByTemplate},
      {"{% if tools %}<|channel|>commentary{% endif %}", "harmony", Told::kByTemplate},
      {"{% if tools %}?{% endif %}", "hermes", Told::kByTemplate},
  };
  for (const auto& [source, format, told] : table) {
    const ChangedModel other(source);
    const Tokenizer tokenizer = Tokenizer::load(other.folder());
    const ToolDialect dialect = tool_dialect(tokenizer);
    EXPECT_EQ(dialect.format->name, format) << source;
    EXPECT_EQ(dialect.told, told) << source;
    EXPECT_EQ(tool_dialect(tokenizer, "kimi_k2").format->name, "kimi_k2");
  }
}

TEST_F(ToolsTest, ATemplateThatKnowsToolsTellsThem) {
  const ChangedModel other(
      "{{ bos_token }}{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}{% endif %}"
      "{% for m in messages %}<|user|>{{ m.content }}{% for c in m.tool_calls or [] %}[TOOL_CALLS]{{ c.function | "
      "tojson }}"
      "#{{ c.id }}{% endfor %}{% if m.role == 'tool' %}={{ m.tool_call_id }}{% endif %}<|end|>{% endfor "
      "%}<|assistant|>");
  LlmOptions options = draft_options();
  options.model = other.folder();
  LoadedModel model(options);
  Service service(model, {.model_name = "other"});
  const auto ask_it = [&](const std::string& path, const Json& body) {
    Response response = service.handle({"POST", path, body.dump(), "id"});
    return finish(response).json();
  };
  Json body = asked(kNamed);
  body["tools"] = Json::array(
      {{{"type", "function"}, {"function", {{"name", "get_weather"}, {"parameters", Json::parse(kClock)}}}}});
  const Json call = ask_it("/v1/chat/completions", body)["choices"][0]["message"]["tool_calls"][0];
  EXPECT_EQ(call["id"].get<std::string>().size(), 9U);  // all that such templates take
  body["messages"].push_back({{"role", "assistant"}, {"tool_calls", Json::array({call})}});
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "noon"}});
  const std::string prompt = ask_it("/apply-template", body)["prompt"];
  const std::string id = call["id"];
  EXPECT_NE(
      prompt.find(R"([AVAILABLE_TOOLS][{"type": "function", "function": {"name": "get_weather", "description": "")"),
      std::string::npos)
      << prompt;
  EXPECT_NE(prompt.find(R"([TOOL_CALLS]{"name": "get_weather", "arguments": {"zone": ")"), std::string::npos)
      << prompt;
  EXPECT_NE(prompt.find("#" + id + "<|end|><|user|>noon=" + id), std::string::npos) << prompt;
}

TEST_F(ToolsTest, SeveralAreCalledWhereCallsAreWrittenAsAList) {
  const ChangedModel other(
      "{{ bos_token }}{% if tools %}[TOOL_CALLS]{% endif %}"
      "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|assistant|>");
  LlmOptions options = draft_options();
  options.model = other.folder();
  LoadedModel model(options);
  Service service(model, {.model_name = "other"});
  const auto calls_of = [&](const Json& body) {
    Response response = service.handle({"POST", "/v1/chat/completions", body.dump(), "id"});
    const Json choice = finish(response).json()["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice;
    for (const Json& call : choice["message"]["tool_calls"]) {
      const Json arguments = Json::parse(call["function"]["arguments"].get<std::string>());
      if (call["function"]["name"] == "get_weather") {
        expect_weather(arguments);
      } else {
        EXPECT_TRUE(arguments["zone"] == "UTC" || arguments["zone"] == "CET") << arguments;
      }
    }
    return choice["message"]["tool_calls"].size();
  };
  Json body = asked("required");
  body["max_tokens"] = 1800;
  size_t most = 0;
  for (int seed = 0; seed < 8; ++seed) {
    body["seed"] = seed;
    body["parallel_tool_calls"] = true;
    most = std::max(most, calls_of(body));
    body["parallel_tool_calls"] = false;
    EXPECT_EQ(calls_of(body), 1U);
  }
  EXPECT_GT(most, 1U);
  EXPECT_LE(most, 16U);
  body["tool_choice"] = kNamed;
  body["parallel_tool_calls"] = true;
  EXPECT_EQ(calls_of(body), 1U);
}

TEST_F(ToolsTest, AnthropicsToolsAreCalled) {
  Json body = story(300);
  body["tools"] = {{{"name", "get_weather"}, {"input_schema", Json::parse(kWeather)}}};
  body["tool_choice"] = {{"type", "any"}};
  body["temperature"] = 1;
  body["seed"] = 2;
  const Json whole = post("/v1/messages", body).json();
  EXPECT_EQ(whole["stop_reason"], "tool_use");
  ASSERT_EQ(whole["content"].size(), 1U);
  EXPECT_EQ(whole["content"][0]["type"], "tool_use");
  EXPECT_TRUE(whole["content"][0]["id"].get<std::string>().starts_with("toolu_"));
  expect_weather(whole["content"][0]["input"]);
  body["stream"] = true;
  std::string json;
  std::vector<std::string> order;
  for (const Json& event : events_of(post("/v1/messages", body).body)) {
    if (order.empty() || order.back() != event["type"]) order.push_back(event["type"]);
    if (event["type"] != "content_block_delta") continue;
    EXPECT_EQ(event["delta"]["type"], "input_json_delta");
    json += event["delta"]["partial_json"];
  }
  EXPECT_EQ(Json::parse(json), whole["content"][0]["input"]);
  EXPECT_EQ(order, (std::vector<std::string>{"message_start", "content_block_start", "content_block_delta",
                                             "content_block_stop", "message_delta", "message_stop"}));
}

TEST_F(ToolsTest, OllamasToolsAreCalled) {
  Json body = asked("required");
  for (const char* name : {"max_tokens", "temperature"}) body.erase(name);
  body["options"] = {{"num_predict", 300}, {"seed", 1}, {"temperature", 1.5}};
  body["tools"] = Json::array({openai_tools()[0]});
  body["stream"] = false;
  const Json whole = post("/api/chat", body).json();
  const Json& call = whole["message"]["tool_calls"].at(0)["function"];
  EXPECT_EQ(call["name"], "get_weather");
  expect_weather(call["arguments"]);
}

TEST_F(ToolsTest, AnthropicsBlocksBecomeMessages) {
  const ChatRequest request = parse_anthropic_messages(parse_json(R"({"max_tokens":5,"messages":[
      {"role":"user","content":"U"},
      {"role":"assistant","content":[{"type":"text","text":"T"},{"type":"tool_use","id":"1","name":"f","input":{"z":1,"a":2}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"R"}]},
                                {"type":"text","text":"and?"}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"2"}]}]})"));
  EXPECT_EQ(request.messages, OrderedJson::parse(R"([{"role":"user","content":"U"},
      {"role":"assistant","content":"T","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"z":1,"a":2}}}]},
      {"role":"tool","tool_call_id":"1","content":"R"},{"role":"user","content":"and?"},
      {"role":"tool","tool_call_id":"2","content":""}])"));
}

TEST_F(ToolsTest, BlamesTheParameter) {
  const auto blamed = [&](const Json& more) {
    Json body = asked("auto");
    body.update(more);
    const Reply reply = post("/v1/chat/completions", body);
    EXPECT_EQ(reply.status, 400) << more;
    return reply.json()["error"]["param"].get<std::string>();
  };
  const auto tool = [](const Json& function) {
    return Json{{"tools", Json::array({{{"type", "function"}, {"function", function}}})}};
  };
  EXPECT_EQ(blamed({{"tools", 7}}), "tools");
  EXPECT_EQ(blamed({{"tools", Json::array({Json::object()})}}), "tools[0].function");
  EXPECT_EQ(blamed(tool(Json::object())), "tools[0].function.name");
  EXPECT_EQ(blamed(tool({{"name", "a b"}})), "tools[0].function.name");
  EXPECT_EQ(blamed(tool({{"name", "a"}, {"parameters", 7}})), "tools[0].function.parameters");
  EXPECT_EQ(blamed({{"tool_choice", "sometimes"}}), "tool_choice");
  EXPECT_EQ(blamed({{"tool_choice", {{"type", "function"}, {"function", {{"name", "g"}}}}}}),
            "tool_choice.function.name");
  EXPECT_EQ(blamed({{"tool_choice", "required"}, {"tools", Json::array()}}), "tool_choice");
  EXPECT_EQ(blamed({{"tool_choice", "required"}, {"response_format", {{"type", "json_object"}}}}), "tool_choice");
  Json unsupported = tool({{"name", "a"}, {"parameters", {{"multipleOf", 0.1}}}});
  unsupported["tool_choice"] = "required";
  EXPECT_EQ(blamed(unsupported), "tools");
  EXPECT_EQ(blamed({{"messages", {{{"role", "assistant"}, {"tool_calls", {Json::object()}}}}}}),
            "messages[0].tool_calls[0].function");
}

}  // namespace
}  // namespace kvasir::testing
