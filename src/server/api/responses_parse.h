// OpenAI's POST /v1/responses. A conversation is a list of items there: messages, calls of functions and what these
// returned. Here they are put into one form, kept in it, and turned into messages for the chat template.
#pragma once

#include <string>

#include "server/api/api_types.h"

namespace kvasir {

struct ResponsesRequest {
  ChatRequest chat;          // its messages are empty: history may come before `items`
  OrderedJson items;         // the request's input, in the form of input_items()
  std::string instructions;  // come first, and are not part of the history; empty: none
  std::string previous;      // the response whose conversation goes on; empty: none
  bool seal = false;         // thoughts are to come in a form that clients hand back: "reasoning.encrypted_content"
  bool store = true;         // keep the response, so that another can go on from it
  OrderedJson settings;      // what the response repeats of the request
};

ResponsesRequest parse_responses(const Json& body);

// The same for a request that only wants its tokens counted.
ResponsesRequest parse_responses_count(const Json& body);

// The messages that a chat template takes. `items` are in the form of parse_responses(), or what a response put out.
OrderedJson messages_of(const std::string& instructions, const OrderedJson& items);

}  // namespace kvasir
