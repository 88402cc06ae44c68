// Nothing is ignored in silence: what is not understood is refused by name, in requests and within their objects; and
// what clients send beside a message's text is read.
#include "server/api/anthropic_parse.h"
#include "server/api/api_error.h"
#include "server/api/cache_breakpoints.h"
#include "server/api/ollama_parse.h"
#include "server/api/openai_parse.h"
#include "server/api/responses_parse.h"
#include "test_server.h"

namespace kvasir::testing {
namespace {

constexpr const char* kChatBody = R"({"messages":[{"role":"user","content":"hi"}]})";
constexpr const char* kMessageBody = R"({"max_tokens":5,"messages":[{"role":"user","content":"hi"}]})";
constexpr const char* kResponseBody = R"({"input":"hi"})";
constexpr const char* kGenerateBody = R"({"prompt":"hi"})";

template <class Parse>
std::string field_blamed(Parse parse, const char* base, const std::string& more) {
  Json body = parse_json(base);
  body.update(parse_json("{" + more + "}"));
  try {
    parse(body);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.reply().status, 400) << more;
    return error.reply().param;
  }
  return "nobody";
}

struct FieldCase {
  const char* more;
  const char* param;
};

TEST(Fields, WithinAChatAreReadOrRefused) {
  for (const FieldCase& one : std::initializer_list<FieldCase>{
           {R"("stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false})", "nobody"},
           {R"("stream_options":{"include_usage":true})", "stream_options"},
           {R"("stream":false,"stream_options":{})", "stream_options"},
           {R"("stream_options":null)", "nobody"},
           {R"("stream":true,"stream_options":{"continuous_usage_stats":true})",
            "stream_options.continuous_usage_stats"},
           {R"("skip_special_tokens":true,"do_sample":true)", "nobody"},
           {R"("skip_special_tokens":false)", "skip_special_tokens"},
           {R"("do_sample":false)", "do_sample"},
           {R"("add_special_tokens":true)", "add_special_tokens"},
           {R"("return_token_ids":true)", "return_token_ids"},
           {R"("n_probs":3)", "n_probs"},
           {R"("moderation":{"model":"m"})", "moderation"},
           {R"("reasoning_format":"auto")", "nobody"},
           {R"("reasoning_format":"none")", "reasoning_format"},
           {R"("reasoning":{"effort":"low","exclude":false,"max_tokens":9,"enabled":true})", "nobody"},
           {R"("reasoning":{"efort":"low"})", "reasoning.efort"},
           {R"("reasoning":{"context":"all_turns"})", "reasoning.context"},
           {R"("thinking":{"type":"enabled","clear_thinking":false})", "nobody"},
           {R"("thinking":{"type":"enabled","budget":5})", "thinking.budget"},
           {R"("thinking":{"type":"enabled","display":"never"})", "thinking.display"},
           {R"("response_format":{"type":"json_object","schema":{"type":"object"}})", "nobody"},
           {R"("response_format":{"type":"json_schema","json_schema":{"schema":{}},"rules":1})",
            "response_format.rules"},
           {R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"root":1}})",
            "response_format.json_schema.root"},
           {R"("prompt_cache_options":{"ttl":"12h"})", "nobody"},
           {R"("messages":[{"role":"user","content":"hi","weight":2}])", "messages[0].weight"},
           {R"("messages":[{"role":"user","content":"hi","prefix":true}])", "messages[0].prefix"},
           {R"("messages":[{"role":"assistant","content":"a","audio":{"id":"x"}},{"role":"user","content":"b"}])",
            "messages[0].audio"},
       })
    EXPECT_EQ(field_blamed(parse_openai_chat, kChatBody, one.more), one.param) << one.more;
}

// What a tool's parameters say is the client's own; all around them is ours to know.
TEST(Fields, OfToolsAreReadOrRefused) {
  for (
      const FieldCase& one : std::initializer_list<FieldCase>{
          {R"("tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"any":[{"thing":1}]}}}])",
           "nobody"},
          {R"("tools":[{"type":"function","cache_control":{"type":"ephemeral"},"function":{"name":"f","type":"object"}}])",
           "nobody"},
          {R"("tools":[{"type":"function","function":{"name":"f","inputSchema":{"type":"object"}}}])",
           "tools[0].function.inputSchema"},
          {R"("tools":[{"type":"function","function":{"name":"f"}},{"type":"function","priority":2,"function":{"name":"g"}}])",
           "tools[1].priority"},
          {R"("tools":[{"type":"function","name":"f","parameters":{},"output_schema":{},"defer_loading":true}])",
           "nobody"},
          {R"("tools":[{"type":"function","name":"f","returns":{"type":"string"}}])", "tools[0].returns"},
          {R"("tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","async":true}]}])",
           "tools[0].tools[0].async"},
          {R"("tools":[{"type":"namespace","name":"n","order":1,"tools":[]}])", "tools[0].order"},
          {R"("tools":[{"type":"web_search","anything":{"goes":1}}])", "nobody"},
          {R"("tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f","times":2})",
           "tool_choice.times"},
          {R"("tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","function":{"name":"f","x":1}})",
           "tool_choice.function.x"},
          {R"("tools":[{"type":"function","name":"f"}],
               "tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","name":"f"}],"most":1}})",
           "tool_choice.allowed_tools.most"},
      })
    EXPECT_EQ(field_blamed(parse_openai_chat, kChatBody, one.more), one.param) << one.more;
  for (
      const FieldCase& one : std::initializer_list<FieldCase>{
          {R"("tools":[{"name":"f","input_schema":{"x":1},"strict":true,"defer_loading":true,"eager_input_streaming":true,
                         "allowed_callers":["direct"],"cache_control":{"type":"ephemeral","scope":"global"}}])",
           "nobody"},
          {R"("tools":[{"name":"f","input_schema":{},"allowed_callers":["code_execution_20260120"]}])",
           "tools[0].allowed_callers"},
          {R"("tools":[{"name":"f","input_schema":{},"input_examples":[{"a":1}]}])", "tools[0].input_examples"},
          {R"("tools":[{"type":"function","function":{"name":"f"}}])", "tools[0].type"},
          {R"("tools":[{"type":"web_search_20250305","name":"web_search","max_uses":5}])", "nobody"},
          {R"("tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"auto","max_uses":1})",
           "tool_choice.max_uses"},
      })
    EXPECT_EQ(field_blamed(parse_anthropic_messages, kMessageBody, one.more), one.param) << one.more;
}

std::string part_blamed(const char* part) {
  return field_blamed(parse_openai_chat, kChatBody,
                      R"("messages":[{"role":"user","content":"x"},{"role":"assistant",)" + std::string(part) + "}]");
}

TEST(Fields, OfPartsOfMessagesAreReadOrRefused) {
  for (
      const FieldCase& one : std::initializer_list<FieldCase>{
          {R"("content":[{"type":"text","text":"a","annotations":[1],"cache_control":{"type":"ephemeral"}}])",
           "nobody"},
          {R"("content":[{"type":"text","text":"a","language":"de"}])", "messages[1].content[0].language"},
          {R"("content":[{"type":"text","text":"a","language":null}])", "nobody"},
          {R"("content":[{"type":"refusal","refusal":"a","why":"b"}])", "messages[1].content[0].why"},
          {R"("content":[{"type":"thinking","thinking":"a","signature":"s"},{"type":"text","text":"a"}])", "nobody"},
          {R"("content":[{"type":"thinking","thinking":"a","depth":3}])", "messages[1].content[0].depth"},
          {R"("content":"a","tool_calls":[{"id":"1","type":"function","index":0,"function":{"name":"f","arguments":"{}"}}])",
           "nobody"},
          {R"("content":"a","tool_calls":[{"id":"1","result":5,"function":{"name":"f","arguments":"{}"}}])",
           "messages[1].tool_calls[0].result"},
          {R"("content":"a","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}","args":{"a":1}}}])",
           "messages[1].tool_calls[0].function.args"},
      })
    EXPECT_EQ(part_blamed(one.more), one.param) << one.more;
  for (
      const FieldCase& one : std::initializer_list<FieldCase>{
          {R"("system":[{"type":"text","text":"S","tone":"kind"}])", "system[0].tone"},
          {R"("messages":[{"role":"user","content":[{"type":"text","text":"U","citations":[]},{"type":"text","text":"V","x":1}]}])",
           "messages[0].content[0].x"},
          {R"("messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r","is_error":true}]}])",
           "nobody"},
          {R"("messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r","cost":1}]}])",
           "messages[0].content[0].cost"},
          {R"("output_config":{"format":{"type":"json_schema","schema":{},"root":1}})", "output_config.format.root"},
          {R"("context_management":{"edits":[],"trigger":5})", "context_management.trigger"},
      })
    EXPECT_EQ(field_blamed(parse_anthropic_messages, kMessageBody, one.more), one.param) << one.more;
  EXPECT_EQ(
      field_blamed(anthropic_cache_breakpoints, kMessageBody,
                   R"("system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral","until":"noon"}}])"),
      "system[0].cache_control.until");
  for (
      const FieldCase& one : std::initializer_list<FieldCase>{
          {R"("input":[{"role":"user","content":[{"type":"input_text","text":"hi","prompt_cache_breakpoint":{"mode":"explicit"}}]}])",
           "nobody"},
          {R"("input":[{"role":"user","content":[{"type":"input_text","text":"hi","detail":"high"}]}])",
           "input[0].content[0].detail"},
          {R"("input":[{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"a","x":1}]},{"role":"user","content":"a"}])",
           "input[0].summary[0].x"},
          {R"("tools":[{"type":"function","name":"f","parameters":{},"strict":true,"examples":[1]}])",
           "tools[0].examples"},
      })
    EXPECT_EQ(field_blamed(parse_responses, kResponseBody, one.more), one.param) << one.more;
}

TEST(Fields, OfOtherApisAreReadOrRefused) {
  for (const FieldCase& one : std::initializer_list<FieldCase>{
           {R"("context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]})", "nobody"},
           {R"("context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]})",
            "context_management.edits[0].type"},
           {R"("output_config":{"effort":"low","task_budget":{"type":"tokens","total":9}})",
            "output_config.task_budget"},
           {R"("container":{"skills":[{"type":"anthropic"}]})", "container"},
           {R"("fallbacks":[{"model":"x"}])", "fallbacks"},
           {R"("diagnostics":{"previous_message_id":null})", "nobody"},
           {R"("diagnostics":{"previous":"x"})", "diagnostics.previous"},
           {R"("workspace_id":"w","speed":"fast","billing_policy":{"a":1})", "nobody"},
           {R"("messages":[{"role":"user","content":"hi","clear_at":"next_user_message"}])", "messages[0].clear_at"},
       })
    EXPECT_EQ(field_blamed(parse_anthropic_messages, kMessageBody, one.more), one.param) << one.more;
  for (const FieldCase& one : std::initializer_list<FieldCase>{
           {R"("text":{"verbosity":"low"})", "nobody"},
           {R"("text":{"style":"plain"})", "text.style"},
           {R"("reasoning":{"effort":"low","summary":"auto","context":"auto"})", "nobody"},
           {R"("reasoning":{"mode":"pro"})", "reasoning.mode"},
           {R"("stream_options":{"include_obfuscation":false})", "stream_options"},
           {R"("stream":true,"stream_options":{"include_obfuscation":false})", "nobody"},
           {R"("access_programs":{"cyber":"standard"})", "nobody"},
           {R"("input":[{"role":"user","content":"hi","phase":"commentary"}])", "nobody"},
           {R"("input":[{"role":"user","content":"hi","tone":"kind"}])", "input[0].tone"},
           {R"("input":[{"type":"compaction","encrypted_content":"x"}])", "input[0].type"},
       })
    EXPECT_EQ(field_blamed(parse_responses, kResponseBody, one.more), one.param) << one.more;
  const char* const ollama = R"({"messages":[{"role":"user","content":"hi"}]})";
  EXPECT_EQ(field_blamed(parse_ollama_chat, ollama, R"("system":"Be kind.")"), "system");
  EXPECT_EQ(field_blamed(parse_ollama_chat, ollama, R"("keep_alive":"5m","truncate":true,"shift":true)"), "nobody");
  for (const FieldCase& one : std::initializer_list<FieldCase>{
           {R"("tools":[{"type":"function","function":{"name":"f"}}])", "tools"},
           {R"("template":"{{ .Prompt }}")", "template"},
           {R"("context":[1,2])", "context"},
           {R"("width":3)", "width"},
           {R"("raw":true,"system":"x")", "system"},
           {R"("raw":true,"think":true)", "think"},
           {R"("options":{"repeat_last_n":64})", "nobody"},
           {R"("options":{"repeat_last_n":64,"repeat_penalty":1.1})", "options.repeat_last_n"},
           {R"("options":{"repeat_last_n":-1,"repeat_penalty":1.1})", "nobody"},
           {R"("options":{"mirostat":2})", "options.mirostat"},
       })
    EXPECT_EQ(field_blamed(parse_ollama_generate, kGenerateBody, one.more), one.param) << one.more;
  const auto off =
      parse_ollama_generate(parse_json(R"({"prompt":"x","options":{"repeat_last_n":0,"repeat_penalty":2}})"));
  EXPECT_EQ(std::get<ChatRequest>(off).options.named.repetition_penalty, 1.0F);
}

TEST(Fields, OfAMessageAreRead) {
  const auto first = [](const char* message) {
    return parse_openai_chat(
               parse_json(std::string(R"({"messages":[)") + message + R"(,{"role":"user","content":"x"}]})"))
        .messages[0];
  };
  EXPECT_EQ(first(R"({"role":"assistant","content":null,"refusal":"I will not."})")["content"], "I will not.");
  EXPECT_EQ(first(R"({"role":"assistant","content":[{"type":"refusal","refusal":"No."}]})")["content"], "No.");
  EXPECT_EQ(first(R"({"role":"tool","content":"5","tool_name":"sum"})")["name"], "sum");
  for (
      const char* thoughts :
      {R"("reasoning_content":"hm","content":"a")", R"("reasoning":"hm","content":"a")",
       R"("reasoning_details":[{"type":"reasoning.text","text":"hm"},{"type":"reasoning.encrypted","data":"?"}],"content":"a")",
       R"("reasoning_details":[{"type":"reasoning.summary","summary":"hm"}],"content":"a")",
       R"("content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}])",
       R"("content":[{"type":"reasoning","text":"hm"},{"type":"text","text":"a"}])"}) {
    const OrderedJson message = first((std::string(R"({"role":"assistant",)") + thoughts + "}").c_str());
    EXPECT_EQ(message["content"], "a") << thoughts;
    EXPECT_EQ(message["reasoning_content"], "hm") << thoughts;
  }
}

TEST(Fields, AMessageMaySayThatItGoesOn) {
  using Turn = ChatRequest::Turn;
  const auto turn = [](const char* last) {
    return parse_openai_chat(parse_json(std::string(R"({"messages":[{"role":"user","content":"x"},)") + last + "]}"))
        .turn;
  };
  EXPECT_EQ(turn(R"({"role":"assistant","content":"a","prefix":true})"), Turn::kContinues);
  EXPECT_EQ(turn(R"({"role":"assistant","content":"a","partial":true})"), Turn::kContinues);
  EXPECT_EQ(turn(R"({"role":"assistant","content":"a","partial":false})"), Turn::kNew);
}

TEST(Fields, AnthropicsConversationMayHaveSystemMessages) {
  const ChatRequest request = parse_anthropic_messages(parse_json(R"({"max_tokens":5,"system":"S","messages":[
      {"role":"user","content":"U"},{"role":"system","content":[{"type":"text","text":"T"}]},
      {"role":"user","content":"V"}]})"));
  EXPECT_EQ(request.messages, OrderedJson::parse(R"([{"role":"system","content":"S"},{"role":"user","content":"U"},
      {"role":"system","content":"T"},{"role":"user","content":"V"}])"));
}

// As Claude Code writes it: the effort of a turn, tools that come and go, and what a search for tools has found.
TEST(Fields, AnthropicsSystemMessagesSteerTheTurn) {
  const ChatRequest request = parse_anthropic_messages(parse_json(R"({"max_tokens":5,"output_config":{"effort":"low"},
      "tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object"},"defer_loading":true}],
      "messages":[{"role":"user","content":"U"},
      {"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"tool_reference","tool_name":"g"}]}]},
      {"role":"system","output_config":{"effort":"high"},"content":[{"type":"text","text":"S"},
       {"type":"tool_removal","tool":{"type":"tool_reference","name":"f"}},
       {"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"h","input_schema":{"type":"object"}}}}]},
      {"role":"user","content":"V"}]})"));
  EXPECT_EQ(request.variables["reasoning_effort"], "high");
  ASSERT_EQ(request.options.toolbox.tools.size(), 2U);
  EXPECT_EQ(request.options.toolbox.tools[0].name, "g");
  EXPECT_EQ(request.options.toolbox.tools[1].name, "h");
  EXPECT_EQ(request.messages[2]["content"], "g");
  EXPECT_EQ(request.messages[3], OrderedJson::parse(R"({"role":"system","content":"S"})"));
  EXPECT_EQ(field_blamed(parse_anthropic_messages, kMessageBody,
                         R"("messages":[{"role":"user","content":"U","output_config":{"effort":"low"}}])"),
            "messages[0].output_config");
}

TEST(Fields, BudgetsReachTheTemplate) {
  const auto budget = [](const char* more) {
    return parse_openai_chat(parse_json(R"({"messages":[{"role":"user","content":"hi"}],)" + std::string(more) + "}"))
        .variables["thinking_budget"];
  };
  EXPECT_EQ(budget(R"("thinking_budget":7)"), 7);
  EXPECT_EQ(budget(R"("reasoning":{"max_tokens":7})"), 7);
  EXPECT_EQ(budget(R"("thinking":{"type":"enabled","budget_tokens":7})"), 7);
}

}  // namespace
}  // namespace kvasir::testing
