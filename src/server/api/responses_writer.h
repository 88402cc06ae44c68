// Writers for POST /v1/responses.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "server/api/answer_writer.h"

namespace kvasir {

// What a response says beside its answer, and who keeps it.
struct ResponseFrame {
  OrderedJson settings;                                   // what it repeats of the request
  std::function<void(const OrderedJson& response)> keep;  // called with the finished one; empty: nobody keeps it
  bool seal = false;                                      // say thoughts in "encrypted_content", too
  std::map<std::string, std::string> spaces{};            // of functions that were listed in a namespace
};

std::unique_ptr<AnswerWriter> responses_stream(AnswerHead head, ResponseFrame frame);
std::unique_ptr<AnswerWriter> responses_whole(AnswerHead head, ResponseFrame frame);

}  // namespace kvasir
