// Tools, the choice among them, calls and results, in the words of the APIs. Each throws ApiError naming the
// parameter.
#pragma once

#include <string>

#include "server/api/api_types.h"

namespace kvasir {

// The array in the field "tools", of at most 256; null: there is none.
const Json* tool_list(const Fields& fields);

// tools [{type: "function", function: {name, description, parameters}}], tool_choice, parallel_tool_calls: OpenAI's,
// and Ollama's. A response's functions, whose words stand beside their type, are read as well, and those in a tool of
// type "namespace". Tools of other types are for a service that runs them itself: they are skipped.
Toolbox read_openai_tools(const Fields& fields);

// tools [{name, description, input_schema}], tool_choice {type, name, disable_parallel_tool_use}.
Toolbox read_anthropic_tools(const Fields& fields);

// An answer cannot be a call and keep to another form, nor go on with a message that has begun.
void check_toolbox(const ChatRequest& request);

// The calls in an assistant's message, as templates take them: [{id, type, function: {name, arguments}}], the
// arguments as an object where they are one.
OrderedJson read_tool_calls(const Json& calls, const std::string& param);

// A call's arguments as a template takes them: the object that the text is, else the text. Templates print them as
// JSON, and text that is JSON must not be quoted once more.
OrderedJson arguments_of(const std::string& text);

// One of Anthropic's messages, which may hold several of ours: results of tools come before what the user says.
void add_anthropic_message(const Fields& message, OrderedJson& messages);

}  // namespace kvasir
