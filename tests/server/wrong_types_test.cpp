// Every value in a request of every API, replaced by every kind of JSON: read, or refused by name; never a 500.
#include "test_server.h"

namespace kvasir::testing {
namespace {

struct Asked {
  const char* path;
  Json body;
};

const char* const kSampling = R"("model":"m","stream":false,"temperature":0,"top_p":1,"top_k":1,"min_p":0,
    "frequency_penalty":0,"presence_penalty":0,"repetition_penalty":1,"seed":1,"logit_bias":{"5":1},
    "stop_token_ids":[5],"ignore_eos":false,"min_tokens":0,"priority":0,"explain":true,"cache_salt":"s",
    "prompt_cache_key":"k","kv":{"format":"f16"})";

const char* const kChatTools = R"("tools":[{"type":"function","function":{"name":"f","description":"d",
    "parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}],"tool_choice":"auto",
    "parallel_tool_calls":true)";

const char* const kChatMessages = R"("messages":[{"role":"system","content":"a"},{"role":"user","name":"n","content":
    [{"type":"text","text":"b","prompt_cache_breakpoint":{"mode":"explicit"}}]},{"role":"assistant","content":"",
    "tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"x\"}"}}]},
    {"role":"tool","tool_call_id":"c","content":"r"}])";

Json object(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "{" : ",") + part;
  return parse_json(text + "}");
}

Json openai_chat() {
  return object(
      {kSampling, kChatMessages, kChatTools,
       R"("max_tokens":1,"max_completion_tokens":1,"n":1,"stop":["x"],"stream_options":null,"thinking_budget":1,
                 "logprobs":true,"top_logprobs":1,"chat_template_kwargs":{"x":1},"modalities":["text"],
                 "response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,
                 "schema":{"type":"object","properties":{"a":{"enum":["x",1]}},"required":["a"]}}},
                 "prompt_cache_options":{"mode":"implicit","ttl":"30m","comparison_response_id":"chatcmpl-x"},"prompt_cache_retention":"24h",
                 "guided_json":null,"json_schema":null,"functions":null,"audio":null,"guided_regex":null,
                 "structured_outputs":null,"grammar":null,"prompt_logprobs":null)"});
}

Json completion() {
  return object({kSampling, R"("prompt":["a",[1,2]],"max_tokens":1,"n":1,"best_of":1,"echo":true,"logprobs":null,
                 "suffix":null,"stop":"x","response_format":{"type":"json_object"})"});
}

Json responses() {
  return object({kSampling, R"("input":[{"role":"user","content":"a"},{"type":"message","id":"m","role":"assistant",
                 "content":[{"type":"output_text","text":"b"},{"type":"refusal","refusal":"c"}]},{"type":"function_call",
                 "call_id":"c","name":"f","arguments":"{\"a\":1}"},{"type":"function_call_output","call_id":"c",
                 "output":[{"type":"input_text","text":"d","prompt_cache_breakpoint":{"mode":"explicit"}}]},
                 {"type":"reasoning"}],"instructions":"i","max_output_tokens":1,"store":false,
                 "tools":[{"type":"function","name":"f","description":"d","strict":true,
                 "parameters":{"type":"object","properties":{}}}],"tool_choice":{"type":"function","name":"f"},
                 "parallel_tool_calls":true,"text":{"format":{"type":"text"}},"top_logprobs":1,
                 "include":["message.output_text.logprobs"],"metadata":{"a":"b"},"previous_response_id":null,
                 "truncation":"disabled","background":false,"conversation":null,"context_management":null,"prompt":null,
                 "chat_template_kwargs":{},"prompt_cache_options":{"mode":"explicit"},"prompt_cache_retention":null,
                 "user":"u","safety_identifier":"s")"});
}

Json responses_schema() {
  return object({R"("input":"a","max_output_tokens":1,"store":true,"text":{"format":{"type":"json_schema","name":"n",
                 "schema":{"type":"object"}}},"tools":[],"tool_choice":"auto","metadata":null)"});
}

Json anthropic() {
  return object({kSampling, R"("system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}],
                 "messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"},
                 {"type":"thinking","thinking":"t"},{"type":"tool_use","id":"i","name":"f","input":{"a":1}}]},
                 {"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"r"}],
                 "cache_control":{"type":"ephemeral"}}]}],"max_tokens":1,"stop_sequences":["x"],
                 "thinking":{"type":"disabled","display":"omitted"},"output_config":{"effort":"low"},
                 "diagnostics":{"previous_message_id":"msg_x"},"context_management":{"edits":[{"type":
                 "clear_thinking_20251015","keep":"all"}]},"mcp_servers":null,"cache_control":{"type":"ephemeral"},
                 "tools":[{"name":"f","type":"custom","description":"d","input_schema":{"type":"object"},
                 "cache_control":{"type":"ephemeral"}}],
                 "tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true})"});
}

Json ollama(const char* more) {
  return object({R"("model":"m","stream":false,"explain":true,"logprobs":true,"top_logprobs":1,"format":"json",
                 "images":null,"suffix":null,"cache_salt":"s","prompt_cache_key":"k","kv":"f16","options":{
                 "num_predict":1,"repeat_penalty":1,"stop":["x"],"temperature":0,"seed":1,"logit_bias":{"5":1}})",
                 more});
}

std::vector<Asked> all_requests() {
  return {{"/v1/chat/completions", openai_chat()},
          {"/apply-template", openai_chat()},
          {"/v1/completions", completion()},
          {"/v1/responses", responses()},
          {"/v1/responses", responses_schema()},
          {"/v1/responses/input_tokens", responses()},
          {"/v1/messages", anthropic()},
          {"/v1/messages/count_tokens", anthropic()},
          {"/api/chat", ollama((std::string(kChatMessages) + "," + kChatTools).c_str())},
          {"/api/generate", ollama(R"("prompt":"a","system":"s","raw":false)")},
          {"/v1/embeddings", object({R"("model":"m","input":["a",[1,2]],"encoding_format":"base64","dimensions":4,
                                     "user":"u")"})},
          {"/api/embed", object({R"("model":"m","input":["a"],"truncate":true,"dimensions":4,"keep_alive":"5m",
                                 "options":{"num_ctx":5})"})},
          {"/api/embeddings", object({R"("model":"m","prompt":"a","options":{"num_ctx":5})"})},
          {"/tokenize", object({R"("content":"a","add_special":true,"parse_special":true,"with_pieces":true)"})},
          {"/detokenize", object({R"("tokens":[1,2])"})}};
}

void collect(const Json& json, const Json::json_pointer& at, std::vector<Json::json_pointer>& out) {
  out.push_back(at);
  if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) collect(json[i], at / i, out);
  } else if (json.is_object()) {
    for (const auto& [key, value] : json.items()) collect(value, at / key, out);
  }
}

using WrongTypes = ServiceDraft;

TEST_F(WrongTypes, NoneIsTheServersFault) {
  const std::vector<Json> wrong{nullptr,
                                true,
                                0,
                                -1,
                                1.5,
                                1e300,
                                "",
                                "x",
                                Json::array(),
                                Json::array({1}),
                                Json::array({nullptr}),
                                Json::array({"x"}),
                                Json::array({Json::array()}),
                                Json::array({Json::object()}),
                                Json::object(),
                                Json{{"a", 1}},
                                Json{{"type", 1}},
                                Json{{"type", "function"}}};
  for (const Asked& asked : all_requests()) {
    std::vector<Json::json_pointer> places;
    collect(asked.body, Json::json_pointer(), places);
    const auto status_of = [&](const Json& body) {
      const Response response = service_.handle({"POST", asked.path, body.dump(), "req-test"});
      if (response.body == Response::Body::kReady) parse_json(response.reply.body);
      return response.reply.status;  // the answer itself is not waited for
    };
    EXPECT_EQ(status_of(asked.body), 200)
        << asked.path << service_.handle({"POST", asked.path, asked.body.dump(), "r"}).reply.body;
    for (const Json::json_pointer& place : places) {
      for (const Json& value : wrong) {
        Json body = asked.body;
        body[place] = value;
        const int status = status_of(body);
        EXPECT_TRUE(status == 200 || (status >= 400 && status < 500))
            << asked.path << " " << place << " = " << value << ": " << status << " "
            << service_.handle({"POST", asked.path, body.dump(), "r"}).reply.body;
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
