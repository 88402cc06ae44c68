// Tools on their way into a prompt, and what an answer that must be a call is held to.
#pragma once

#include <vector>

#include "server/answer/tool_call_reader.h"
#include "server/api/api_types.h"
#include "text/tokenizer.h"

namespace kvasir {

// How the served model writes calls, and who tells it of tools.
struct ToolDialect {
  enum class Told { kByTemplate, kBySystemText };  // kBySystemText: the template has no word of tools

  const ToolFormat* format = nullptr;
  Told told = Told::kBySystemText;
  std::vector<TokenId> marks{};  // special tokens that calls are written with
};

// By what the chat template says, or by the name of a format. REQUIRES: the name is one that find_tool_format()
// knows, or empty.
ToolDialect tool_dialect(const Tokenizer& tokenizer, const std::string& name = {});

// [{type: "function", function: {…}}], as templates take them; null: none.
OrderedJson template_tools(const Toolbox& toolbox);

// For templates that have no word of tools: the tools in the system prompt, calls and their results as text, all in
// Hermes' way.
OrderedJson messages_with_tools(const OrderedJson& messages, const Toolbox& toolbox);

// {"name": …, "arguments": {…}} with the arguments' own schema; a list of up to 16 of them where the model was taught
// to write its calls as one, any tool may be called and several calls are welcome. REQUIRES: toolbox.must == kCall.
ResponseFormat call_format(const Toolbox& toolbox, const ToolFormat& format);

// Where calls are bare JSON: the form, or a call with any arguments. Nothing else tells them from each other, so what
// both may be is read as a call.
ResponseFormat call_or_json(const Toolbox& toolbox, const ToolFormat& format, const ResponseFormat& form);

}  // namespace kvasir
